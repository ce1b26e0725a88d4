import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { z } from 'zod';
import { quoteAnswer } from './answers.ts';
import type { Chaos } from './chaos.ts';
import type { TestMintQuote, TestMintQuotes } from './quotes.ts';
import type { RateLimits } from './rate-limit.ts';
import type { TestMintSwitches } from './switches.ts';

/** What the socket side needs of the mint. */
export interface SocketContext {
  quotes: TestMintQuotes;
  switches: TestMintSwitches;
  rateLimits: RateLimits;
  chaos: Chaos;
  onOpening: () => void;
}

/** The WebSocket of the mint (NUT-17), for `bolt11_mint_quote` alone. */
export class TestMintSocket {
  readonly #context: SocketContext;
  readonly #server = new WebSocketServer({ noServer: true });
  readonly #connections = new Map<WebSocket, Connection>();
  readonly #unanswered = new Set<Duplex>();

  constructor(context: SocketContext) {
    this.#context = context;
    context.quotes.onChange((quote) => this.#notify(quote));
  }

  /** Takes over the server's upgrade requests. */
  attachTo(server: Server): void {
    server.on('upgrade', (request, socket, head) => this.#open(request, socket, head));
  }

  get openCount(): number {
    return this.#connections.size;
  }

  /** Cuts every connection, as a crash or a bad line would. */
  dropAll(): void {
    for (const socket of this.#connections.keys()) {
      socket.terminate();
    }
  }

  close(): void {
    this.dropAll();
    for (const socket of this.#unanswered) {
      socket.destroy();
    }
    this.#server.close();
  }

  #open(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { switches } = this.#context;
    this.#context.onOpening();
    // A client that is gone before its answer must not take the mint with it.
    socket.on('error', () => socket.destroy());
    const fault = this.#context.chaos.openingFault();
    if (switches.dead || fault === 'silence') {
      this.#unanswered.add(socket);
      socket.on('close', () => this.#unanswered.delete(socket));
      return;
    }
    if (fault === 'cut') {
      socket.destroy();
      return;
    }
    if (fault !== null) {
      refuseUpgrade(socket, fault);
      return;
    }
    if (request.url !== '/v1/ws' || !switches.socket) {
      refuseUpgrade(socket, '404 Not Found');
      return;
    }
    if (!this.#isAdmitted()) {
      refuseUpgrade(socket, '500 Internal Server Error');
      return;
    }
    this.#server.handleUpgrade(request, socket, head, (webSocket) => this.#serve(webSocket));
  }

  #serve(webSocket: WebSocket): void {
    const connection = { subscriptions: new Map(), everSubscribed: new Set<string>() };
    this.#connections.set(webSocket, connection);
    webSocket
      .on('close', () => this.#connections.delete(webSocket))
      .on('error', () => webSocket.terminate())
      .on('message', (data) => {
        if (!this.#context.switches.dead) {
          this.#handle(webSocket, connection, String(data));
        }
      });
  }

  #handle(webSocket: WebSocket, connection: Connection, text: string): void {
    const isCdk = this.#context.switches.style === 'cdk';
    if (!this.#isAdmitted()) {
      this.#send(webSocket, rpcError(0, -32000, 'Error: Rate limit exceeded'));
      return;
    }
    const call = parseCall(text);
    if (call === 'malformed') {
      if (!isCdk) {
        this.#send(
          webSocket,
          rpcError(0, -32700, 'Error: Expecting value: line 1 column 1 (char 0)'),
        );
      }
      return;
    }
    switch (call?.method) {
      case 'subscribe':
        this.#subscribe(webSocket, connection, call);
        return;
      case 'unsubscribe': {
        const { subId } = call.params;
        const isKnown = connection.subscriptions.delete(subId);
        const refusal = isCdk
          ? rpcError(call.id, -32602, 'Invalid params')
          : rpcError(call.id, -32603, `Error: Subscription not found: ${subId}`);
        this.#send(webSocket, isKnown ? rpcOk(call.id, subId) : refusal);
        return;
      }
      case undefined: {
        const id = readId(text);
        this.#send(
          webSocket,
          isCdk
            ? rpcError(id, -32700, 'Parse error')
            : rpcError(id, -32603, 'Error: 1 validation error for JSONRPCSubscribeParams'),
        );
      }
    }
  }

  /** OK first, then the current state of each quote that is known, later every change. */
  #subscribe(
    webSocket: WebSocket,
    connection: Connection,
    { id, params: { subId, filters } }: SubscribeCall,
  ): void {
    const { quotes, switches, chaos } = this.#context;
    if (isOverLimit(connection, filters.length, switches)) {
      this.#send(
        webSocket,
        switches.style === 'cdk'
          ? rpcError(id, -32602, 'Invalid params')
          : rpcError(id, -32603, 'Error: Max subscriptions reached'),
      );
      return;
    }
    connection.subscriptions.set(subId, new Set(filters));
    for (const quoteId of filters) {
      connection.everSubscribed.add(quoteId);
    }
    this.#send(webSocket, rpcOk(id, subId));
    for (const quoteId of filters) {
      const quote = quotes.byId.get(quoteId);
      if (quote !== undefined && !switches.socketSilent) {
        const told = chaos.isFirstStateStale() ? { ...quote, state: 'UNPAID' as const } : quote;
        this.#send(webSocket, notification(subId, told, switches));
      }
    }
  }

  #notify(quote: TestMintQuote): void {
    const { switches } = this.#context;
    if (switches.socketSilent || switches.dead) {
      return;
    }
    for (const [webSocket, { subscriptions }] of this.#connections) {
      for (const [subId, quoteIds] of subscriptions) {
        if (quoteIds.has(quote.id)) {
          this.#send(webSocket, notification(subId, quote, switches));
        }
      }
    }
  }

  #send(webSocket: WebSocket, message: object): void {
    const fault = this.#context.chaos.messageFault();
    switch (fault?.kind) {
      case 'lostMessage':
        return;
      case 'lateMessage':
        setTimeout(() => send(webSocket, message), fault.delayMs).unref();
        return;
      case 'repeatedMessage':
        send(webSocket, message);
        send(webSocket, message);
        return;
      default:
        send(webSocket, message);
    }
  }

  /** Openings and messages share one count; a message over it does no harm to its connection. */
  #isAdmitted(): boolean {
    return this.#context.rateLimits.limitReached('GET /v1/ws') === null;
  }
}

interface Connection {
  /** Quote ids by subscription id. */
  subscriptions: Map<string, Set<string>>;
  /** Every quote id of this connection's life. */
  everSubscribed: Set<string>;
}

/** Nutshell: for the life of a connection. cdk: for one subscription. */
const MAX_FILTERS = 1000;

/** cdk's limit for one connection. */
const MAX_SUBSCRIPTIONS = 100;

function isOverLimit(
  { subscriptions, everSubscribed }: Connection,
  filterCount: number,
  { style }: TestMintSwitches,
): boolean {
  return style === 'cdk'
    ? filterCount > MAX_FILTERS || subscriptions.size >= MAX_SUBSCRIPTIONS
    : everSubscribed.size >= MAX_FILTERS;
}

const SUBSCRIBE_CALL = z.object({
  id: z.int(),
  method: z.literal('subscribe'),
  params: z.object({
    kind: z.literal('bolt11_mint_quote'),
    subId: z.string(),
    filters: z.array(z.string()),
  }),
});
const UNSUBSCRIBE_CALL = z.object({
  id: z.int(),
  method: z.literal('unsubscribe'),
  params: z.object({ subId: z.string() }),
});
const CALL = z.discriminatedUnion('method', [SUBSCRIBE_CALL, UNSUBSCRIBE_CALL]);

type SubscribeCall = z.infer<typeof SUBSCRIBE_CALL>;

/** The call in a message; undefined where it is JSON but no call that is known here. */
function parseCall(text: string): z.infer<typeof CALL> | 'malformed' | undefined {
  try {
    return CALL.safeParse(JSON.parse(text)).data;
  } catch {
    return 'malformed';
  }
}

function readId(text: string): number {
  return z.object({ id: z.int() }).safeParse(JSON.parse(text)).data?.id ?? 0;
}

function rpcOk(id: number, subId: string): object {
  return { jsonrpc: '2.0', result: { status: 'OK', subId }, id };
}

function rpcError(id: number, code: number, message: string): object {
  return { jsonrpc: '2.0', error: { code, message }, id };
}

function notification(subId: string, quote: TestMintQuote, switches: TestMintSwitches): object {
  const payload = quoteAnswer(quote, switches, 'later');
  return { jsonrpc: '2.0', method: 'subscribe', params: { subId, payload } };
}

function send(webSocket: WebSocket, message: object): void {
  webSocket.send(JSON.stringify(message));
}

function refuseUpgrade(socket: Duplex, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}
