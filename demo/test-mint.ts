import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Hold, HoldPoint } from './test-mint/holds.ts';
import { createMintServer } from './test-mint/http-server.ts';
import { markIssued } from './test-mint/issuing.ts';
import type { KeysetRotation } from './test-mint/keysets.ts';
import type { Proof } from './test-mint/ledger.ts';
import {
  keysetExpired,
  type MintRejection,
  rateLimited,
  serverError,
} from './test-mint/mint-rejection.ts';
import type { TestMintQuote } from './test-mint/quotes.ts';
import type { CountedRoute, Route } from './test-mint/routes.ts';
import { createState, type TestMintOptions, type TestMintState } from './test-mint/state.ts';
import { DEFAULT_TEST_MINT_SWITCHES, type TestMintSwitches } from './test-mint/switches.ts';
import { TestMintWebSocketServer } from './test-mint/websocket-server.ts';

const HOST = '127.0.0.1';

/**
 * A Cashu mint for tests, benchmarks and the demo. It signs and verifies like a real mint (NUT-00 to 09, 12, 17, 20,
 * 23, 29), so an unmodified wallet can mint, swap, melt and restore. It does not use Lightning: an invoice is paid by
 * calling `pay`, or by a melt. All state is in memory.
 */
export class TestMint {
  /** Without a trailing slash. */
  readonly url: string;
  /** Tests may change the switches at any time. A change applies from the next request on. */
  readonly switches: TestMintSwitches;
  readonly #state: TestMintState;
  readonly #server: Server;
  readonly #webSocketServer: TestMintWebSocketServer;

  /** Starts a mint. Resolves when it listens. */
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
    this.#webSocketServer = new TestMintWebSocketServer(state, server);
  }

  /** Current quotes by id. */
  get quotes(): ReadonlyMap<string, TestMintQuote> {
    return this.#state.quotes.byId;
  }

  /** Number of received requests by route, including requests that were rejected or not answered. */
  get requestCounts(): Readonly<Record<CountedRoute, number>> {
    return this.#state.requestCounts;
  }

  /**
   * Marks the quote of an invoice as PAID, notifies subscribers, and returns the quote. Accepts an expired
   * invoice, because a Lightning payment can arrive late.
   *
   * @throws Error if this mint has no such unpaid invoice
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

  /** Marks a paid quote as ISSUED without creating proofs, as if a wallet had minted it. */
  async markIssued(quoteId: string): Promise<void> {
    await markIssued(this.#state, quoteId);
  }

  /** Creates proofs of 1 sat each. */
  createProofs(count: number): Proof[] {
    return this.#state.ledger.createProofs(count);
  }

  /** Deletes the quotes that expired before a time, as some real mints do. */
  deleteExpiredQuotes(beforeUnixSeconds: number): void {
    this.#state.quotes.deleteExpired(beforeUnixSeconds);
  }

  /**
   * Creates a new active keyset and returns its id. By default, the previous keyset becomes inactive: the mint still
   * lists it and accepts its proofs, but no longer signs with it (NUT-02).
   */
  rotateKeyset(rotation: KeysetRotation = {}): string {
    return this.#state.ledger.keysets.rotate(rotation);
  }

  /** Rejects the next swaps because a keyset has expired. */
  expireNextSwaps(times: number): void {
    for (let i = 0; i < times; i += 1) {
      this.#rejectNext('POST /v1/swap', keysetExpired());
    }
  }

  /**
   * Makes the next request to a route wait until the test releases it, so that the test can crash the service
   * at an exact point. After the release, the mint handles the request even if its client has disconnected.
   */
  holdNext(route: Route, point: Exclude<HoldPoint, 'during'>): Hold;
  holdNext(route: 'POST /v1/swap' | 'POST /v1/melt/bolt11', point: 'during'): Hold;
  holdNext(route: Route, point: HoldPoint): Hold {
    return this.#state.holds.add(route, point);
  }

  /** Rejects the next requests to a route, as a busy mint (500) or a proxy in front of a mint does. */
  failNext(route: Route, times = 1, status = 500): void {
    for (let i = 0; i < times; i += 1) {
      this.#rejectNext(route, serverError(status, 'failed to acquire database lock'));
    }
  }

  /** Rejects the next request to a route with 429, as a proxy in front of a mint may. */
  rateLimitNext(route: Route, { retryAfterSeconds }: { retryAfterSeconds?: number } = {}): void {
    this.#rejectNext(route, rateLimited(retryAfterSeconds));
  }

  /** Closes every connection and rejects new ones until `startListening`. */
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

  /** Cuts every WebSocket connection without a close handshake, as a crash would. */
  dropSockets(): void {
    this.#webSocketServer.dropConnections();
  }

  /** Stops the mint: closes every connection and cancels delayed responses. */
  async close(): Promise<void> {
    this.#state.closeController.abort();
    if (this.#server.listening) {
      await this.stopListening();
    }
  }

  #rejectNext(route: Route, rejection: MintRejection): void {
    const { plannedRejections } = this.#state;
    plannedRejections.set(route, [...(plannedRejections.get(route) ?? []), rejection]);
  }
}
