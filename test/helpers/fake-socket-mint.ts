import { createServer } from 'node:http';
import { onTestFinished } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { QuoteObservation } from '../../src/mints/quote-answer.ts';
import { listenOnLoopback } from './loopback-server.ts';

/** The message with which a mint reports the state of a quote (NUT-17). */
export function notification(quote: string, state: string): object {
  const params = { subId: 'any', payload: { quote, state } };
  return { jsonrpc: '2.0', method: 'subscribe', params };
}

/** What arrives, in order, for a test that waits for it. */
export class Inbox<T> {
  readonly #arrived: T[] = [];
  readonly #waiting: ((item: T) => void)[] = [];

  get size(): number {
    return this.#arrived.length;
  }

  put(item: T): void {
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

  takeAll(): T[] {
    return this.#arrived.splice(0);
  }
}

interface Call {
  id: number;
  method: string;
  params: { kind: string; subId: string; filters: string[] };
}

/** The mint's end of one connection. */
export class Peer {
  readonly calls = new Inbox<Call>();
  readonly socket: WebSocket;
  #marks = 0;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data) => this.calls.put(JSON.parse(String(data)) as Call));
    socket.on('error', () => {});
  }

  confirm({ id, params: { subId } }: Call): void {
    this.send({ jsonrpc: '2.0', id, result: { status: 'OK', subId } });
  }

  notify(quote: string, state: string): void {
    this.send(notification(quote, state));
  }

  /** Resolves when all that was sent before has been read at the other end. */
  async isHeard(observations: Inbox<QuoteObservation>, quoteId: string): Promise<void> {
    this.notify(quoteId, this.#marks % 2 === 0 ? 'UNPAID' : 'PENDING');
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

/** A mint with nothing but a WebSocket, on which the test speaks for it. */
export class FakeMint {
  readonly connections = new Inbox<Peer>();
  readonly paths: string[] = [];
  readonly url: string;
  /** The HTTP status with which handshakes are refused; null: they succeed. */
  refusal: number | null = null;

  static async start(options: { autoPong?: boolean } = {}): Promise<FakeMint> {
    const server = createServer();
    const { url, close } = await listenOnLoopback(server);
    onTestFinished(close);
    const mint = new FakeMint(url);
    const sockets = new WebSocketServer({ noServer: true, ...options });
    server.on('upgrade', (request, socket, head) => {
      mint.paths.push(request.url ?? '');
      if (mint.refusal === null) {
        sockets.handleUpgrade(request, socket, head, (peer) =>
          mint.connections.put(new Peer(peer)),
        );
      } else {
        socket.end(`HTTP/1.1 ${mint.refusal} No\r\nContent-Length: 0\r\n\r\n`);
      }
    });
    return mint;
  }

  private constructor(url: string) {
    this.url = url;
  }
}
