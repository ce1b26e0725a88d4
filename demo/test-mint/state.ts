import { setMaxListeners } from 'node:events';
import type { Socket } from 'node:net';
import { Chaos } from './chaos.ts';
import { Holds } from './holds.ts';
import { TestMintKeysets } from './keysets.ts';
import { TestMintLedger } from './ledger.ts';
import { TestMintQuotes } from './quotes.ts';
import { RateLimits } from './rate-limit.ts';
import type { MintRefusal } from './refusal.ts';
import { type CountedRoute, ROUTES, type Route } from './routes.ts';
import type { TestMintSwitches } from './switches.ts';

/** An answer that was sent in full. Times from `performance.now()`. */
export interface SentAnswer {
  route: Route;
  status: number;
  receivedAtMs: number;
  sentAtMs: number;
}

/** How a test mint is started. */
export interface TestMintOptions {
  /** Default: any free port of 127.0.0.1. */
  port?: number;
  switches?: Partial<TestMintSwitches>;
  /** Determines what happens at random (`chaos` of the switches). */
  seed?: string;
  /** The fee for each input of a swap (NUT-02), in thousandths of a sat, of the first keyset. Default 0. */
  inputFeePpk?: number;
  /** Milliseconds since 1970. Default: the system's clock. */
  now?: () => number;
  /** Called for each answer that was sent. */
  onAnswer?: (answer: SentAnswer) => void;
}

export type TestMintState = ReturnType<typeof createState>;

/** What the parts of a test mint share. */
export function createState(
  switches: TestMintSwitches,
  { now = Date.now, seed = '', inputFeePpk = 0, onAnswer }: TestMintOptions,
) {
  /** Aborted when the mint closes. */
  const closing = new AbortController();
  // Every delayed answer listens to it.
  setMaxListeners(0, closing.signal);
  const noRequests = [...ROUTES, 'GET /v1/ws'].map((route) => [route, 0]);
  return {
    switches,
    now,
    onAnswer,
    closing,
    quotes: new TestMintQuotes(switches, now),
    ledger: new TestMintLedger(new TestMintKeysets(inputFeePpk), switches),
    rateLimits: new RateLimits(switches, now),
    chaos: new Chaos(switches, seed),
    holds: new Holds(closing.signal),
    requestCounts: Object.fromEntries(noRequests) as Record<CountedRoute, number>,
    connections: new Set<Socket>(),
    /** How the next requests of a route are refused. */
    plannedRefusals: new Map<Route, MintRefusal[]>(),
  };
}
