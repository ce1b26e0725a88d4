import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { quoteAnswer } from './answers.ts';
import { MESSAGE_FAULTS } from './chaos.ts';
import type { TestMintQuote } from './quotes.ts';
import type { TestMintState } from './state.ts';

/** Nutshell accepts this many filters in the life of a connection. */
const MAX_FILTERS = 1000;

/** cdk accepts this many subscriptions on a connection. */
const MAX_SUBSCRIPTIONS = 100;

interface Connection {
  socket: WebSocket;
  /** Quote ids by subscription id. */
  subscriptions: Map<string, ReadonlySet<string>>;
  filterCount: number;
}

type Call =
  | { id: number; method: 'subscribe'; params: { subId: string; filters: string[] } }
  | { id: number; method: 'unsubscribe'; params: { subId: string } };

type SubscribeCall = Extract<Call, { method: 'subscribe' }>;

/** The WebSocket of the mint (NUT-17), for `bolt11_mint_quote` only. */
export class TestMintSocket {
  readonly #state: TestMintState;
  readonly #server = new WebSocketServer({ noServer: true });
  readonly #connections = new Set<Connection>();

  /** Handles the upgrade requests of an HTTP server. */
  constructor(state: TestMintState, server: Server) {
    this.#state = state;
    server.on('upgrade', (request, socket, head) => this.#open(request, socket, head));
    state.quotes.onChange((quote) => this.#notify(quote));
  }

  get openCount(): number {
    return this.#connections.size;
  }

  /** Cuts every connection, as a crash or a network failure would. */
  dropAll(): void {
    for (const { socket } of this.#connections) {
      socket.terminate();
    }
  }

  #open(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { switches, chaos, requestCounts } = this.#state;
    requestCounts['GET /v1/ws'] += 1;
    socket.on('error', () => socket.destroy());
    if (switches.dead) {
      return;
    }
    if (chaos.happens('brokenOpening')) {
      refuseUpgrade(socket, '503 Service Unavailable');
    } else if (request.url !== '/v1/ws' || !switches.socket) {
      refuseUpgrade(socket, '404 Not Found');
    } else if (!this.#isAdmitted()) {
      refuseUpgrade(socket, '500 Internal Server Error');
    } else {
      this.#server.handleUpgrade(request, socket, head, (webSocket) => this.#serve(webSocket));
    }
  }

  #serve(socket: WebSocket): void {
    const connection: Connection = { socket, subscriptions: new Map(), filterCount: 0 };
    this.#connections.add(connection);
    socket
      .on('close', () => this.#connections.delete(connection))
      .on('error', () => socket.terminate())
      .on('message', (data) => this.#handle(connection, JSON.parse(String(data)) as Call));
  }

  #handle(connection: Connection, call: Call): void {
    if (this.#state.switches.dead) {
      return;
    }
    if (!this.#isAdmitted()) {
      const error = { code: -32000, message: 'Error: Rate limit exceeded' };
      this.#send(connection, { id: 0, error });
    } else if (call.method === 'subscribe') {
      this.#subscribe(connection, call);
    } else {
      const { subId } = call.params;
      connection.subscriptions.delete(subId);
      this.#send(connection, { id: call.id, result: { status: 'OK', subId } });
    }
  }

  /** Confirms, then sends the current state of each known quote; every change follows. */
  #subscribe(connection: Connection, { id, params: { subId, filters } }: SubscribeCall): void {
    const { subscriptions } = connection;
    if (connection.filterCount >= MAX_FILTERS || subscriptions.size >= MAX_SUBSCRIPTIONS) {
      const error = { code: -32603, message: 'Error: Max subscriptions reached' };
      this.#send(connection, { id, error });
      return;
    }
    subscriptions.set(subId, new Set(filters));
    connection.filterCount += filters.length;
    this.#send(connection, { id, result: { status: 'OK', subId } });
    for (const quoteId of filters) {
      const quote = this.#state.quotes.byId.get(quoteId);
      if (quote !== undefined) {
        const isStale = this.#state.chaos.happens('staleFirstState');
        this.#sendState(connection, subId, isStale ? { ...quote, state: 'UNPAID' } : quote);
      }
    }
  }

  #notify(quote: TestMintQuote): void {
    for (const connection of this.#connections) {
      for (const [subId, quoteIds] of connection.subscriptions) {
        if (quoteIds.has(quote.id)) {
          this.#sendState(connection, subId, quote);
        }
      }
    }
  }

  #sendState(connection: Connection, subId: string, quote: TestMintQuote): void {
    const { switches } = this.#state;
    if (!switches.socketSilent && !switches.dead) {
      const payload = quoteAnswer(quote, switches, 'later');
      this.#send(connection, { method: 'subscribe', params: { subId, payload } });
    }
  }

  #send({ socket }: Connection, content: object): void {
    const message = JSON.stringify({ jsonrpc: '2.0', ...content });
    const { chaos } = this.#state;
    switch (chaos.choose(MESSAGE_FAULTS, 'messages')) {
      case 'lostMessage':
        return;
      case 'lateMessage':
        setTimeout(() => socket.send(message), chaos.delayMs()).unref();
        return;
      case 'repeatedMessage':
        socket.send(message);
        socket.send(message);
        return;
      default:
        socket.send(message);
    }
  }

  /** Openings and messages share one count. A message over the limit is refused; its connection stays open. */
  #isAdmitted(): boolean {
    return this.#state.rateLimits.limitReached('GET /v1/ws') === null;
  }
}

function refuseUpgrade(socket: Duplex, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}
