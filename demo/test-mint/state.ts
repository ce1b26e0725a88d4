import { setMaxListeners } from 'node:events';
import type { Socket } from 'node:net';
import { Chaos } from './chaos.ts';
import { Holds } from './holds.ts';
import { TestMintKeysets } from './keysets.ts';
import { TestMintLedger } from './ledger.ts';
import type { MeltQuotes } from './melting.ts';
import type { MintRejection } from './mint-rejection.ts';
import { TestMintQuotes } from './quotes.ts';
import { RateLimiter } from './rate-limiter.ts';
import { type CountedRoute, ROUTES, type Route } from './routes.ts';
import type { TestMintSwitches } from './switches.ts';

export interface TestMintOptions {
  /** Default: any free port of 127.0.0.1. */
  port?: number;
  switches?: Partial<TestMintSwitches>;
  /** Seed for the random faults in `switches.chaos`. */
  seed?: string;
  /** Fee per input of the first keyset (NUT-02), in thousandths of a sat. Default 0. */
  inputFeePpk?: number;
  /** Returns milliseconds since 1970. Default: the system clock. */
  now?: () => number;
}

export type TestMintState = ReturnType<typeof createState>;

/** Creates the state that the parts of a test mint share. */
export function createState(
  switches: TestMintSwitches,
  { now = Date.now, seed = '', inputFeePpk = 0 }: TestMintOptions,
) {
  /** Aborted when the mint closes. */
  const closeController = new AbortController();
  // Every delayed response adds a listener.
  setMaxListeners(0, closeController.signal);
  const zeroCounts = [...ROUTES, 'GET /v1/ws'].map((route) => [route, 0]);
  return {
    switches,
    now,
    closeController,
    quotes: new TestMintQuotes(switches, now),
    ledger: new TestMintLedger(new TestMintKeysets(inputFeePpk, now), switches),
    meltQuotes: new Map() as MeltQuotes,
    rateLimiter: new RateLimiter(switches, now),
    chaos: new Chaos(switches, seed),
    holds: new Holds(closeController.signal),
    requestCounts: Object.fromEntries(zeroCounts) as Record<CountedRoute, number>,
    connections: new Set<Socket>(),
    /** Rejections that tests have planned for the next requests to a route. */
    plannedRejections: new Map<Route, MintRejection[]>(),
  };
}
