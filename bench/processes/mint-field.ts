import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { json, text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { type WebSocket, WebSocketServer } from 'ws';
import {
  AMOUNT_SAT,
  type FieldMintKind,
  fieldInvoice,
  fieldMintInfo,
  fieldQuoteId,
  fieldQuoteNumber,
  isPaidBefore,
  SLOW_ANSWER_MS,
} from '../harness/field.ts';

/** Which mints there are: standard input. */
export interface FieldPlan {
  /** In the order of their numbers. */
  kinds: FieldMintKind[];
  /** Open at each of them. */
  quotesPerMint: number;
}

/** The line of standard output. */
export interface FieldStart {
  /**
   * `POST {"mint", "quote"}`, both numbers, pays a quote; `GET` answers {@link FieldCounts}.
   */
  controlUrl: string;
  /** Of each mint, in the order of their numbers. */
  mintUrls: string[];
}

/** What came to the mints of each kind so far. */
export type FieldCounts = Record<FieldMintKind, KindCounts>;

export interface KindCounts {
  info: number;
  batches: number;
  /** Quotes that the batches asked for. */
  batched: number;
  reads: number;
  socketOpenings: number;
  subscriptions: number;
  openSockets: number;
  /** Quotes subscribed on the sockets that are open now. */
  covered: number;
  /** Requests and messages that no mint would take: the service must not send any. */
  mistakes: number;
}

/** What Nutshell takes in a batch, and in the life of a socket. */
const MAX_BATCH_SIZE = 1000;
const MAX_FILTERS = 1000;

/** Many small mints, each on a port of its own, in one process. Memory holds the paid quotes alone. */

const plan = (await json(process.stdin)) as FieldPlan;
const counts: FieldCounts = {
  swift: noCounts(),
  plain: noCounts(),
  slow: noCounts(),
  dead: noCounts(),
};
const webSockets = new WebSocketServer({ noServer: true });

/** One mint. */
class FieldMint {
  readonly #number: number;
  readonly #kind: FieldMintKind;
  readonly #counts: KindCounts;
  /** Paid since the beginning. */
  readonly #paid = new Set<string>();
  /** The subscription of each quote (NUT-17), by socket. */
  readonly #subscribed = new Map<WebSocket, Map<string, string>>();

  constructor(number: number, kind: FieldMintKind) {
    this.#number = number;
    this.#kind = kind;
    this.#counts = counts[kind];
  }

  async listen(): Promise<string> {
    const server = createServer((request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
    server.on('upgrade', (request, socket, head) => void this.#upgrade(request, socket, head));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  pay(quote: number): void {
    const quoteId = fieldQuoteId(this.#number, quote);
    this.#paid.add(quoteId);
    for (const [socket, subscriptions] of this.#subscribed) {
      const subId = subscriptions.get(quoteId);
      if (subId !== undefined) {
        socket.send(this.#notification(quoteId, subId));
      }
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const { status, content } = this.#route(`${request.method} ${request.url}`, body);
    await this.#takeTime();
    response.writeHead(status, { 'content-type': 'application/json' }).end(content);
  }

  #route(target: string, body: string): { status: number; content: string } {
    if (target === 'GET /v1/info') {
      this.#counts.info += 1;
      return { status: 200, content: JSON.stringify(fieldMintInfo(this.#kind)) };
    }
    if (target === 'POST /v1/mint/quote/bolt11/check') {
      this.#counts.batches += 1;
      return this.#kind === 'plain'
        ? { status: 405, content: '{"detail":"Method Not Allowed"}' }
        : this.#check((JSON.parse(body) as { quotes: string[] }).quotes);
    }
    if (target.startsWith(READ)) {
      this.#counts.reads += 1;
      const quoteId = decodeURIComponent(target.slice(READ.length));
      return this.#has(quoteId) ? { status: 200, content: this.#quote(quoteId) } : this.#mistake();
    }
    return this.#mistake();
  }

  #check(quoteIds: string[]): { status: number; content: string } {
    this.#counts.batched += quoteIds.length;
    const isRight = quoteIds.length <= MAX_BATCH_SIZE && quoteIds.every((id) => this.#has(id));
    return isRight
      ? { status: 200, content: `[${quoteIds.map((id) => this.#quote(id)).join(',')}]` }
      : this.#mistake();
  }

  #mistake(): { status: number; content: string } {
    this.#counts.mistakes += 1;
    return { status: 400, content: '{"detail":"quote not found","code":0}' };
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy());
    this.#counts.socketOpenings += 1;
    await this.#takeTime();
    if (this.#kind === 'plain' || request.url !== '/v1/ws') {
      socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
      return;
    }
    webSockets.handleUpgrade(request, socket, head, (webSocket) => this.#serve(webSocket));
  }

  #serve(webSocket: WebSocket): void {
    const subscriptions = new Map<string, string>();
    this.#subscribed.set(webSocket, subscriptions);
    this.#counts.openSockets += 1;
    webSocket.on('error', () => webSocket.terminate());
    webSocket.on('close', () => {
      this.#counts.openSockets -= 1;
      this.#counts.covered -= subscriptions.size;
      this.#subscribed.delete(webSocket);
    });
    webSocket.on('message', (data) => {
      void this.#takeTime().then(() => this.#subscribe(webSocket, subscriptions, String(data)));
    });
  }

  /** OK first, then the current state of each quote, later every payment. */
  #subscribe(webSocket: WebSocket, subscriptions: Map<string, string>, message: string): void {
    const { id, method, params } = JSON.parse(message) as SocketCall;
    const { subId, filters = [] } = params;
    if (method !== 'subscribe' || subscriptions.size + filters.length > MAX_FILTERS) {
      this.#counts.mistakes += 1;
      const error = { code: -32603, message: 'Error: Max subscriptions reached' };
      webSocket.send(JSON.stringify({ jsonrpc: '2.0', error, id }));
      return;
    }
    this.#counts.subscriptions += 1;
    webSocket.send(JSON.stringify({ jsonrpc: '2.0', result: { status: 'OK', subId }, id }));
    for (const quoteId of filters.filter((each) => this.#has(each))) {
      this.#counts.covered += subscriptions.has(quoteId) ? 0 : 1;
      subscriptions.set(quoteId, subId);
      webSocket.send(this.#notification(quoteId, subId));
    }
  }

  #notification(quoteId: string, subId: string): string {
    const params = `{"subId":"${subId}","payload":${this.#quote(quoteId)}}`;
    return `{"jsonrpc":"2.0","method":"subscribe","params":${params}}`;
  }

  /** As Nutshell tells a quote that it has looked up. */
  #quote(quoteId: string): string {
    const isPaid =
      this.#paid.has(quoteId) || isPaidBefore(fieldQuoteNumber(this.#number, quoteId) ?? 0);
    return JSON.stringify({
      quote: quoteId,
      request: fieldInvoice(quoteId),
      amount: AMOUNT_SAT,
      unit: 'sat',
      amount_paid: isPaid ? AMOUNT_SAT : 0,
      amount_issued: 0,
      updated_at: STARTED_AT,
      state: isPaid ? 'PAID' : 'UNPAID',
      expiry: null,
      pubkey: '',
    });
  }

  #has(quoteId: string): boolean {
    const quote = fieldQuoteNumber(this.#number, quoteId);
    return quote !== null && quote < plan.quotesPerMint;
  }

  /** As long as this mint takes; for ever where it is dead. */
  async #takeTime(): Promise<void> {
    if (this.#kind === 'slow') {
      await delay(SLOW_ANSWER_MS);
    } else if (this.#kind === 'dead') {
      await new Promise(() => undefined);
    }
  }
}

const READ = 'GET /v1/mint/quote/bolt11/';
const STARTED_AT = Math.floor(Date.now() / 1000);

interface SocketCall {
  id: number;
  method: string;
  params: { subId: string; filters?: string[] };
}

const mints = plan.kinds.map((kind, number) => new FieldMint(number, kind));
const mintUrls = await Promise.all(mints.map((mint) => mint.listen()));
const control = createServer((request, response) => {
  text(request)
    .then((body) => {
      if (request.method === 'POST') {
        const { mint, quote } = JSON.parse(body) as { mint: number; quote: number };
        mints[mint]?.pay(quote);
      }
      response.end(JSON.stringify(counts));
    })
    .catch(() => response.destroy());
});
control.listen(0, '127.0.0.1');
await once(control, 'listening');
const controlUrl = `http://127.0.0.1:${(control.address() as AddressInfo).port}/`;
process.stdout.write(`${JSON.stringify({ controlUrl, mintUrls } satisfies FieldStart)}\n`);

function noCounts(): KindCounts {
  return {
    info: 0,
    batches: 0,
    batched: 0,
    reads: 0,
    socketOpenings: 0,
    subscriptions: 0,
    openSockets: 0,
    covered: 0,
    mistakes: 0,
  };
}
