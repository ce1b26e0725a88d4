import { createServer } from 'node:http';
import { onTestFinished } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { QuoteObservation } from '../../src/mints/quote-responses.ts';
import { listenOnLoopback } from './loopback-server.ts';

/** The message with which a mint reports the state of a quote (NUT-17). */
export function quoteNotification(quote: string, state: string): object {
  const params = { subId: 'any', payload: { quote, state } };
  return { jsonrpc: '2.0', method: 'subscribe', params };
}

/** A queue whose consumer can wait for the next item. */
export class AsyncQueue<T> {
  readonly #arrived: T[] = [];
  readonly #waiting: ((item: T) => void)[] = [];

  get size(): number {
    return this.#arrived.length;
  }

  push(item: T): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) {
      this.#arrived.push(item);
    } else {
      waiting(item);
    }
  }

  async next(): Promise<T> {
    return this.#arrived.length > 0
      ? (this.#arrived.shift() as T)
      : await new Promise((resolve) => this.#waiting.push(resolve));
  }

  drain(): T[] {
    return this.#arrived.splice(0);
  }
}

interface JsonRpcRequest {
  id: number;
  method: string;
  params: { kind: string; subId: string; filters: string[] };
}

/** The mint's end of one connection. */
export class MintConnection {
  readonly requests = new AsyncQueue<JsonRpcRequest>();
  readonly socket: WebSocket;
  #marks = 0;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data) => this.requests.push(JSON.parse(String(data)) as JsonRpcRequest));
    socket.on('error', () => {});
  }

  confirmSubscription({ id, params: { subId } }: JsonRpcRequest): void {
    this.send({ jsonrpc: '2.0', id, result: { status: 'OK', subId } });
  }

  sendQuoteState(quote: string, state: string): void {
    this.send(quoteNotification(quote, state));
  }

  /** Resolves when the peer has read everything sent so far. */
  async waitUntilRead(observations: AsyncQueue<QuoteObservation>, quoteId: string): Promise<void> {
    this.sendQuoteState(quoteId, this.#marks % 2 === 0 ? 'UNPAID' : 'PENDING');
    this.#marks += 1;
    await observations.next();
  }

  send(message: unknown): void {
    this.sendText(JSON.stringify(message));
  }

  sendText(text: string): void {
    this.socket.send(text);
  }
}

/** A mint that has only a WebSocket, whose messages the test sends. */
export class FakeWebSocketMint {
  readonly connections = new AsyncQueue<MintConnection>();
  readonly requestedPaths: string[] = [];
  readonly url: string;
  /** The HTTP status with which handshakes are rejected; null: handshakes succeed. */
  upgradeRejectionStatus: number | null = null;

  static async start(options: { autoPong?: boolean } = {}): Promise<FakeWebSocketMint> {
    const server = createServer();
    const { url, close } = await listenOnLoopback(server);
    onTestFinished(close);
    const mint = new FakeWebSocketMint(url);
    const sockets = new WebSocketServer({ noServer: true, ...options });
    server.on('upgrade', (request, socket, head) => {
      mint.requestedPaths.push(request.url ?? '');
      if (mint.upgradeRejectionStatus === null) {
        sockets.handleUpgrade(request, socket, head, (peer) =>
          mint.connections.push(new MintConnection(peer)),
        );
      } else {
        socket.end(`HTTP/1.1 ${mint.upgradeRejectionStatus} No\r\nContent-Length: 0\r\n\r\n`);
      }
    });
    return mint;
  }

  private constructor(url: string) {
    this.url = url;
  }
}
