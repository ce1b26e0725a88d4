import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { MESSAGE_FAULTS } from './chaos.ts';
import type { TestMintQuote } from './quotes.ts';
import { quoteResponse } from './responses.ts';
import type { TestMintState } from './state.ts';

/** Nutshell's limit on filters (quote ids) per connection. */
const MAX_FILTERS = 1000;

/** cdk's limit on subscriptions per connection. */
const MAX_SUBSCRIPTIONS = 100;

/** What the mint needs of a WebSocket. */
export interface MintSocket {
  send(text: string): void;
  terminate(): void;
  on(event: 'message', listener: (data: unknown) => void): unknown;
  on(event: 'close' | 'error', listener: () => void): unknown;
}

interface Connection {
  socket: MintSocket;
  /** By subscription id. */
  subscriptions: Map<string, { quoteIds: ReadonlySet<string>; confirmedAtMs: number }>;
  filterCount: number;
}

type JsonRpcRequest =
  | { id: number; method: 'subscribe'; params: { kind: string; subId: string; filters: string[] } }
  | { id: number; method: 'unsubscribe'; params: { subId: string } };

type SubscribeRequest = Extract<JsonRpcRequest, { method: 'subscribe' }>;

/** The mint's WebSocket server (NUT-17). Supports only subscriptions of one kind. */
export class TestMintWebSocketServer {
  readonly #state: TestMintState;
  readonly #webSocketServer = new WebSocketServer({ noServer: true });
  readonly #connections = new Set<Connection>();

  /** @param httpServer null: `accept` gets all connections */
  constructor(state: TestMintState, httpServer: Server | null) {
    this.#state = state;
    httpServer?.on('upgrade', (request, socket, head) =>
      this.#handleUpgrade(request, socket, head),
    );
    state.quotes.onStateChange((quote) => this.#publishQuote(quote));
  }

  /** Cuts every connection without a close handshake, as a crash would. */
  dropConnections(): void {
    for (const { socket } of this.#connections) {
      socket.terminate();
    }
  }

  #handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const status = request.url === '/v1/ws' ? this.checkHandshake() : 404;
    if (this.#state.switches.isUnresponsive) {
      return;
    }
    if (status !== null) {
      socket.end(
        `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
      );
      return;
    }
    this.#webSocketServer.handleUpgrade(request, socket, head, (webSocket) =>
      this.accept(webSocket),
    );
  }

  /** Counts a handshake. Returns the status that rejects it; null: it is accepted. */
  checkHandshake(): number | null {
    const { switches, chaos, requestCounts } = this.#state;
    requestCounts['GET /v1/ws'] += 1;
    if (chaos.shouldInject('rejectedUpgrade')) {
      return 503;
    }
    if (!switches.hasWebSocket) {
      return 404;
    }
    return this.#isWithinRateLimit() ? null : 500;
  }

  accept(socket: MintSocket): void {
    const connection: Connection = { socket, subscriptions: new Map(), filterCount: 0 };
    this.#connections.add(connection);
    socket.on('close', () => this.#connections.delete(connection));
    socket.on('error', () => socket.terminate());
    socket.on('message', (data) =>
      this.#handleMessage(connection, JSON.parse(String(data)) as JsonRpcRequest),
    );
  }

  #handleMessage(connection: Connection, request: JsonRpcRequest): void {
    if (this.#state.switches.isUnresponsive) {
      return;
    }
    if (!this.#isWithinRateLimit()) {
      const error = { code: -32000, message: 'Error: Rate limit exceeded' };
      this.#send(connection, { id: 0, error });
    } else if (request.method === 'subscribe') {
      this.#subscribe(connection, request);
    } else {
      const { subId } = request.params;
      connection.subscriptions.delete(subId);
      this.#send(connection, { id: request.id, result: { status: 'OK', subId } });
    }
  }

  /** Confirms the subscription and sends the current state of each known quote. */
  #subscribe(
    connection: Connection,
    { id, params: { kind, subId, filters } }: SubscribeRequest,
  ): void {
    const { subscriptions } = connection;
    if (kind !== this.#state.switches.subscriptionKind) {
      const error = { code: -32603, message: `Error: '${kind}' is not a valid kind` };
      this.#send(connection, { id, error });
      return;
    }
    if (connection.filterCount >= MAX_FILTERS || subscriptions.size >= MAX_SUBSCRIPTIONS) {
      const error = { code: -32603, message: 'Error: Max subscriptions reached' };
      this.#send(connection, { id, error });
      return;
    }
    subscriptions.set(subId, { quoteIds: new Set(filters), confirmedAtMs: performance.now() });
    connection.filterCount += filters.length;
    this.#send(connection, { id, result: { status: 'OK', subId } });
    for (const quoteId of filters) {
      const quote = this.#state.quotes.byId.get(quoteId);
      if (quote !== undefined) {
        const isStale = this.#state.chaos.shouldInject('staleFirstState');
        this.#sendState(connection, subId, isStale ? { ...quote, state: 'UNPAID' } : quote);
      }
    }
  }

  #publishQuote(quote: TestMintQuote): void {
    for (const connection of this.#connections) {
      for (const [subId, { quoteIds, confirmedAtMs }] of connection.subscriptions) {
        const ageMs = performance.now() - confirmedAtMs;
        if (quoteIds.has(quote.id) && ageMs >= this.#state.switches.subscriptionGapMs) {
          this.#sendState(connection, subId, quote);
        }
      }
    }
  }

  #sendState(connection: Connection, subId: string, quote: TestMintQuote): void {
    const { switches } = this.#state;
    if (!switches.isWebSocketSilent && !switches.isUnresponsive) {
      const payload = quoteResponse(quote, switches, 'later');
      this.#send(connection, { method: 'subscribe', params: { subId, payload } });
    }
  }

  #send({ socket }: Connection, content: object): void {
    const message = JSON.stringify({ jsonrpc: '2.0', ...content });
    const { chaos } = this.#state;
    switch (chaos.chooseFault(MESSAGE_FAULTS, 'messages')) {
      case 'lostMessage':
        return;
      case 'lateMessage':
        setTimeout(() => socket.send(message), chaos.randomDelayMs()).unref();
        return;
      case 'repeatedMessage':
        socket.send(message);
        socket.send(message);
        return;
      default:
        socket.send(message);
    }
  }

  /** Counts an upgrade or a message, and checks the limit that both share. */
  #isWithinRateLimit(): boolean {
    return this.#state.rateLimiter.countRequest('GET /v1/ws') === null;
  }
}
