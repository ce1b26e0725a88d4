import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ChaosRates } from './test-mint/chaos.ts';
import type { Hold, HoldMoment } from './test-mint/holds.ts';
import { createMintServer } from './test-mint/http.ts';
import { markIssued } from './test-mint/issuing.ts';
import type { TestMintQuote } from './test-mint/quotes.ts';
import { busy, type MintRefusal, rateLimited } from './test-mint/refusal.ts';
import type { CountedRoute, Route } from './test-mint/routes.ts';
import { TestMintSocket } from './test-mint/socket.ts';
import { createState, type TestMintOptions, type TestMintState } from './test-mint/state.ts';
import { DEFAULT_TEST_MINT_SWITCHES, type TestMintSwitches } from './test-mint/switches.ts';

const HOST = '127.0.0.1';

/**
 * A Cashu mint for tests, benchmarks and the demo. It blinds, signs and checks like a real one (NUT-00 to 04,
 * 06, 07, 09, 12, 17, 20, 23, 29), so an unmodified wallet can mint, swap and restore. There is no Lightning
 * network: `pay` pays an invoice of this mint. It keeps everything in memory.
 */
export class TestMint {
  /** Without a trailing slash. */
  readonly url: string;
  /** May be changed at any time; takes effect from the next request on. */
  readonly switches: TestMintSwitches;
  readonly #state: TestMintState;
  readonly #server: Server;
  readonly #socket: TestMintSocket;

  /** Starts a mint; it listens when this resolves. */
  static async start(options: TestMintOptions = {}): Promise<TestMint> {
    const switches = { ...DEFAULT_TEST_MINT_SWITCHES, ...options.switches };
    const state = createState(switches, options);
    const server = createMintServer(state);
    server.on('connection', (socket) => {
      state.connections.add(socket);
      socket.on('close', () => state.connections.delete(socket));
    });
    server.listen(options.port ?? 0, HOST);
    await once(server, 'listening');
    return new TestMint(state, server);
  }

  private constructor(state: TestMintState, server: Server) {
    this.url = `http://${HOST}:${(server.address() as AddressInfo).port}`;
    this.switches = state.switches;
    this.#state = state;
    this.#server = server;
    this.#socket = new TestMintSocket(state, server);
  }

  /** Every quote by its id, as it is now. */
  get quotes(): ReadonlyMap<string, TestMintQuote> {
    return this.#state.quotes.byId;
  }

  /** How many requests were received, including refused and unanswered ones. */
  get requestCounts(): Readonly<Record<CountedRoute, number>> {
    return this.#state.requestCounts;
  }

  /** How often each random fault has happened. */
  get chaosCounts(): Readonly<Record<keyof ChaosRates, number>> {
    return this.#state.chaos.counts;
  }

  /** How many WebSockets are open. */
  get openSocketCount(): number {
    return this.#socket.openCount;
  }

  /**
   * Pays an invoice: its quote becomes PAID, and subscribers are notified. An expired invoice can be paid
   * too, because a payment can settle late. Returns the paid quote.
   *
   * @throws if this mint has no such unpaid invoice
   */
  pay(request: string): TestMintQuote {
    const { quotes } = this.#state;
    const quote = quotes.findByRequest(request);
    if (quote?.state !== 'UNPAID') {
      throw new Error(quote ? `invoice already paid: ${request}` : `unknown invoice: ${request}`);
    }
    quotes.setState(quote.id, 'PAID');
    return quotes.get(quote.id);
  }

  /** Issues a paid quote without proofs, as when its owner's wallet mints it. */
  async issue(quoteId: string): Promise<void> {
    await markIssued(this.#state, quoteId);
  }

  /** Returns the state of a proof, by its Y in hex (NUT-07). */
  stateOf(y: string): string {
    return this.#state.ledger.stateOf(y).state;
  }

  /** Forgets the quotes that expired before a time (Unix seconds), as mints do that clean up. */
  forgetExpired(before: number): void {
    this.#state.quotes.forgetExpired(before);
  }

  /**
   * Creates a new active keyset. The one before becomes inactive: it is still listed and can be spent, but
   * no longer signs (NUT-02). Returns the new id.
   */
  rotateKeyset({ inputFeePpk }: { inputFeePpk?: number } = {}): string {
    return this.#state.ledger.keysets.rotate(inputFeePpk);
  }

  /**
   * Holds the next request of a route, so that a test can place a crash exactly. Several holds of one route
   * and moment hold one request each. A client that disconnects meanwhile changes nothing; a mint that has
   * closed does nothing more.
   */
  hold(route: Route, moment: Exclude<HoldMoment, 'during'>): Hold;
  hold(route: 'POST /v1/swap', moment: 'during'): Hold;
  hold(route: Route, moment: HoldMoment): Hold {
    return this.#state.holds.place(route, moment);
  }

  /** Fails the next requests of a route with 500, as a busy mint does. */
  failNext(route: Route, times = 1): void {
    for (let planned = 0; planned < times; planned += 1) {
      this.#refuseNext(route, busy());
    }
  }

  /** Answers the next request of a route with one stray 429, as a proxy in front of a mint may. */
  rateLimitNext(route: Route, { retryAfterSeconds }: { retryAfterSeconds?: number } = {}): void {
    this.#refuseNext(route, rateLimited(retryAfterSeconds));
  }

  /** Closes every connection and refuses new ones until `startListening`. */
  async stopListening(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const connection of this.#state.connections) {
      connection.destroy();
    }
    await closed;
  }

  /** Listens again on the same port after `stopListening`. */
  async startListening(): Promise<void> {
    this.#server.listen(Number(new URL(this.url).port), HOST);
    await once(this.#server, 'listening');
  }

  /** Cuts every open WebSocket. */
  dropSockets(): void {
    this.#socket.dropAll();
  }

  /** Ends every connection, delay and timer. */
  async close(): Promise<void> {
    this.#state.closing.abort();
    if (this.#server.listening) {
      await this.stopListening();
    }
  }

  #refuseNext(route: Route, refusal: MintRefusal): void {
    const { plannedRefusals } = this.#state;
    plannedRefusals.set(route, [...(plannedRefusals.get(route) ?? []), refusal]);
  }
}
