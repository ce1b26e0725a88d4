import { once, setMaxListeners } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { readInvoice } from '../domain/bolt11.ts';
import { Chaos, type ChaosRates } from './test-mint/chaos.ts';
import { type Hold, type HoldMoment, Holds } from './test-mint/holds.ts';
import { createMintServer, type SentAnswer } from './test-mint/http.ts';
import { markIssued, refuseUnlessPaid } from './test-mint/issuing.ts';
import { type KeysetIdVersion, TestMintKeysets } from './test-mint/keysets.ts';
import { TestMintLedger } from './test-mint/ledger.ts';
import { type TestMintMeltQuote, TestMintMelts } from './test-mint/melts.ts';
import { type TestMintQuote, TestMintQuotes } from './test-mint/quotes.ts';
import { RateLimits } from './test-mint/rate-limit.ts';
import type { RefusalReason } from './test-mint/refusal.ts';
import { ROUTES, type Route, routeHandlers } from './test-mint/routes.ts';
import { TestMintSocket } from './test-mint/socket.ts';
import { DEFAULT_TEST_MINT_SWITCHES, type TestMintSwitches } from './test-mint/switches.ts';

/** How a test mint is started. */
export interface TestMintOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** Default: any free one. */
  port?: number;
  switches?: Partial<TestMintSwitches>;
  /** What happens by chance (`chaos` of the switches) follows from it. Default: always the same. */
  seed?: string;
  /** Thousandths of a sat for each input of a swap or melt (NUT-02), of the first keyset. Default 0. */
  inputFeePpk?: number;
  /** Of every keyset (NUT-02). Default v2; wallets still meet both. */
  keysetIdVersion?: KeysetIdVersion;
  /** Milliseconds since 1970. Default: the system's clock. */
  now?: () => number;
  /** Called for each answer that was sent, except those to unknown routes. */
  onAnswer?: (answer: SentAnswer) => void;
}

/** What requests are counted by: the routes, and the openings of the WebSocket. */
export type CountedRoute = Route | 'GET /v1/ws';

/**
 * A Cashu mint for tests and the demo. It blinds, signs and checks like a real one (NUT-00 to 12, 17,
 * 20, 23, 29), so an unmodified wallet can mint, swap, melt and restore; only the Lightning network is
 * missing: `pay` takes its place for invoices of this mint, the `melt...` switches and `settleMelt`
 * for those of others. It keeps everything in memory.
 */
export class TestMint {
  /** Without a trailing slash. */
  readonly url: string;
  /** May be changed at any time; counts from the next request on. */
  readonly switches: TestMintSwitches;
  readonly #server: Server;
  readonly #parts: Parts;

  /** Starts a mint; it listens when this resolves. */
  static async start(options: TestMintOptions = {}): Promise<TestMint> {
    const switches = { ...DEFAULT_TEST_MINT_SWITCHES, ...options.switches };
    const parts = assemble(switches, options);
    const server = createServer(parts);
    server.listen(options.port ?? 0, options.host ?? '127.0.0.1');
    await once(server, 'listening');
    return new TestMint(server, parts);
  }

  private constructor(server: Server, parts: Parts) {
    const { address, family, port } = server.address() as AddressInfo;
    this.url = `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
    this.switches = parts.switches;
    this.#server = server;
    this.#parts = parts;
  }

  /** Every quote by its id, as it is now. */
  get quotes(): ReadonlyMap<string, TestMintQuote> {
    return this.#parts.quotes.byId;
  }

  /** Every melt quote by its id, as it is now. */
  get meltQuotes(): ReadonlyMap<string, TestMintMeltQuote> {
    return this.#parts.melts.byId;
  }

  /** How many requests came in, refused and unanswered ones included. */
  get requestCounts(): Readonly<Record<CountedRoute, number>> {
    return this.#parts.requestCounts;
  }

  /** How often each thing has gone wrong by chance. */
  get chaosCounts(): Readonly<Record<keyof ChaosRates, number>> {
    return this.#parts.chaos.counts;
  }

  /** How many WebSockets are open. */
  get openSocketCount(): number {
    return this.#parts.socket.openCount;
  }

  /**
   * Somebody pays this invoice: its quote becomes PAID, and subscribers hear of it. An expired
   * invoice can be paid too, because a payment can settle late.
   *
   * @returns the quote, now paid
   * @throws where this mint has no such unpaid invoice
   */
  pay(request: string): TestMintQuote {
    const quote = this.#parts.quotes.findByRequest(request);
    if (quote?.state !== 'UNPAID') {
      throw new Error(quote ? `invoice already paid: ${request}` : `unknown invoice: ${request}`);
    }
    this.#parts.quotes.setState(quote.id, 'PAID');
    return this.#parts.quotes.get(quote.id);
  }

  /**
   * A paid quote becomes ISSUED, as when its owner's wallet mints it, without the proofs. It is
   * PENDING for `issuePauseMs` before; resolves when it is issued.
   *
   * @throws where the mint has no such quote, or it is not PAID
   */
  async issue(quoteId: string): Promise<void> {
    const { quotes, switches, closing } = this.#parts;
    const quote = quotes.get(quoteId);
    refuseUnlessPaid(quote);
    await markIssued({ quotes, switches, closing: closing.signal }, [quote]);
  }

  /**
   * A payment that is PENDING was made, or failed for good (NUT-05): its inputs are spent and its
   * change is signed, or they are unspent again and the quote UNPAID.
   *
   * @throws where no such payment is PENDING
   */
  settleMelt(quoteId: string, outcome: 'paid' | 'failed'): TestMintMeltQuote {
    return this.#parts.melts.settle(quoteId, outcome);
  }

  /**
   * Makes a new active keyset. The one before it becomes inactive: it is still listed and can be
   * spent, but nothing more is signed with it (NUT-02).
   *
   * @returns the id of the new one
   */
  rotateKeyset({ inputFeePpk }: { inputFeePpk?: number } = {}): string {
    return this.#parts.ledger.keysets.rotate(inputFeePpk);
  }

  /**
   * Stops the next request of a route, so that a test can place a crash exactly: before anything is
   * done; a swap while its inputs are PENDING; or after all is done, but before the answer goes out.
   * Several holds of one route and moment take one request each. What the client does meanwhile, even
   * if it goes away, changes nothing; a mint that has closed does nothing more.
   */
  hold(route: Route, moment: Exclude<HoldMoment, 'during'>): Hold;
  hold(route: 'POST /v1/swap', moment: 'during'): Hold;
  hold(route: Route, moment: HoldMoment): Hold {
    return this.#parts.holds.place(route, moment);
  }

  /** Lets the next requests of a route fail with 500, as a busy mint does. */
  failNext(route: Route, times = 1): void {
    this.#rejectNext(route, { kind: 'busy' }, times);
  }

  /** Answers the next request of a route with one stray 429, as a proxy in front of a mint may. */
  rateLimitNext(route: Route, { retryAfterSeconds }: { retryAfterSeconds?: number } = {}): void {
    this.#rejectNext(route, { kind: 'rate_limited', retryAfterSeconds }, 1);
  }

  #rejectNext(route: Route, reason: RefusalReason, times: number): void {
    const { rejections } = this.#parts;
    const planned = Array.from({ length: times }, () => reason);
    rejections.set(route, [...(rejections.get(route) ?? []), ...planned]);
  }

  /** Closes every connection and the port: connections are refused until `startListening`. */
  async stopListening(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.dropSockets();
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  /** Listens again on the same port after `stopListening`. */
  async startListening(): Promise<void> {
    const { hostname, port } = new URL(this.url);
    this.#server.listen(Number(port), hostname.replace(/^\[|\]$/g, ''));
    await once(this.#server, 'listening');
  }

  /** Cuts every open WebSocket without a word. */
  dropSockets(): void {
    this.#parts.socket.dropAll();
  }

  /** Ends every connection, delay and timer. */
  async close(): Promise<void> {
    this.#parts.closing.abort();
    this.#parts.socket.close();
    if (this.#server.listening) {
      await this.stopListening();
    }
  }
}

type Parts = ReturnType<typeof assemble>;

function assemble(switches: TestMintSwitches, options: TestMintOptions) {
  const { now = Date.now, inputFeePpk = 0, keysetIdVersion = 'v2', seed = '', onAnswer } = options;
  const closing = new AbortController();
  // Every waiting answer listens to it.
  setMaxListeners(0, closing.signal);
  const quotes = new TestMintQuotes(switches, now);
  const ledger = new TestMintLedger(new TestMintKeysets(keysetIdVersion, inputFeePpk));
  const rateLimits = new RateLimits(switches, now);
  const chaos = new Chaos(switches, seed);
  const requestCounts = zeroCounts();
  const onOpening = () => {
    requestCounts['GET /v1/ws'] += 1;
  };
  return {
    switches,
    now,
    closing,
    quotes,
    rateLimits,
    chaos,
    requestCounts,
    onAnswer,
    ledger,
    melts: new TestMintMelts({ ledger, quotes, switches, now }),
    holds: new Holds(closing.signal),
    socket: new TestMintSocket({ quotes, switches, rateLimits, chaos, onOpening }),
    rejections: new Map<Route, RefusalReason[]>(),
  };
}

function createServer(parts: Parts): Server {
  const { switches, rateLimits, chaos, holds, quotes, rejections, requestCounts, onAnswer } = parts;
  const closing = parts.closing.signal;
  const onQuoteCreated = ({ id }: TestMintQuote) => payLater(id, quotes, switches, closing);
  const server = createMintServer({
    handlers: routeHandlers({ ...parts, readInvoice, closing, onQuoteCreated }),
    switches,
    rateLimits,
    chaos,
    holds,
    closing,
    onRequest: (route) => {
      requestCounts[route] += 1;
    },
    onAnswer,
    takeRejection: (route) => rejections.get(route)?.shift(),
  });
  parts.socket.attachTo(server);
  return server;
}

function payLater(
  quoteId: string,
  quotes: TestMintQuotes,
  { payAutomaticallyAfterMs }: TestMintSwitches,
  closing: AbortSignal,
): void {
  if (payAutomaticallyAfterMs === null) {
    return;
  }
  const pay = () => {
    if (quotes.get(quoteId).state === 'UNPAID') {
      quotes.setState(quoteId, 'PAID');
    }
  };
  // A mint that closes first is paid no more.
  delay(payAutomaticallyAfterMs, undefined, { signal: closing }).then(pay, () => {});
}

function zeroCounts(): Record<CountedRoute, number> {
  const names: CountedRoute[] = [...ROUTES, 'GET /v1/ws'];
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<CountedRoute, number>;
}
