import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { json, text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { type WebSocket, WebSocketServer } from 'ws';
import { pollIntervalMs } from '../../src/domain/poll-schedule.ts';
import {
  AMOUNT_SAT,
  type FieldMintKind,
  fieldInvoice,
  fieldMintInfo,
  fieldQuoteId,
  fieldQuoteNumber,
  SLOW_ANSWER_MS,
} from '../harness/field.ts';
import { type OpenQuote, openQuotes, stateOf } from '../harness/open-quotes.ts';

/** Which mints there are: standard input. */
export interface FieldPlan {
  /** In the order of their numbers. */
  kinds: FieldMintKind[];
  /** Open at each of them. */
  quotesPerMint: number;
  /** When the quotes were created as {@link openQuotes} has them, in milliseconds since 1970. */
  nowMs: number;
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
  /**
   * For each quote that is due now, how long it has been due, as a share of its polling interval. Accurate
   * to the time between two requests for the counts.
   */
  lateness: number[];
}

/** What Nutshell takes in a batch, and in the life of a socket. */
const MAX_BATCH_SIZE = 1000;
const MAX_FILTERS = 1000;

/** Many small mints, each on a port of its own, in one process. */

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
  /** By their numbers. */
  readonly #quotes: PolledQuote[];
  /** The subscription of each quote (NUT-17), by socket. */
  readonly #subscribed = new Map<WebSocket, Map<string, string>>();

  constructor(number: number, kind: FieldMintKind) {
    this.#number = number;
    this.#kind = kind;
    this.#counts = counts[kind];
    const created = openQuotes({ number, kind, url: '' }, plan.quotesPerMint, plan.nowMs);
    const askedAtMs = performance.now();
    this.#quotes = created.map((quote) => ({ ...quote, askedAtMs, dueAtMs: null }));
  }

  get kind(): FieldMintKind {
    return this.#kind;
  }

  /** See {@link KindCounts.lateness}. */
  lateness(): number[] {
    const covered = new Set([...this.#subscribed.values()].flatMap((ids) => [...ids.keys()]));
    const wallMs = Date.now();
    const nowMs = performance.now();
    return this.#quotes.flatMap((quote) => {
      const scheduled = { ...quote, state: stateOf(quote) };
      const intervalMs = pollIntervalMs(scheduled, wallMs, {
        // Matters to INFLIGHT alone, which no quote is here.
        stateAgeAtPollMs: 0,
        isCovered: covered.has(quote.quoteId),
      });
      if (nowMs - quote.askedAtMs < intervalMs) {
        quote.dueAtMs = null;
        return [];
      }
      quote.dueAtMs ??= nowMs;
      return [(nowMs - quote.dueAtMs) / intervalMs];
    });
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

  pay(number: number): void {
    const quoteId = fieldQuoteId(this.#number, number);
    const quote = this.#quotes[number];
    if (quote === undefined) {
      throw new RangeError(`mint ${this.#number} has no quote ${number}`);
    }
    quote.paidAtMs = Date.now();
    for (const [socket, subscriptions] of this.#subscribed) {
      const subId = subscriptions.get(quoteId);
      if (subId !== undefined) {
        socket.send(renderNotification(quote, subId));
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
      return this.#answerQuotes([quoteId], ([quote = '']) => quote);
    }
    return this.#mistake();
  }

  #check(quoteIds: string[]): { status: number; content: string } {
    this.#counts.batched += quoteIds.length;
    return this.#answerQuotes(quoteIds, (quotes) => `[${quotes.join(',')}]`);
  }

  #answerQuotes(
    quoteIds: readonly string[],
    render: (quotes: string[]) => string,
  ): { status: number; content: string } {
    const asked = quoteIds.map((id) => this.#find(id)).filter((quote) => quote !== undefined);
    if (asked.length < quoteIds.length || quoteIds.length > MAX_BATCH_SIZE) {
      return this.#mistake();
    }
    for (const quote of asked) {
      quote.askedAtMs = performance.now();
      quote.dueAtMs = null;
    }
    return { status: 200, content: render(asked.map(renderQuote)) };
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
    for (const quoteId of filters) {
      const quote = this.#find(quoteId);
      if (quote !== undefined) {
        this.#counts.covered += subscriptions.has(quoteId) ? 0 : 1;
        subscriptions.set(quoteId, subId);
        webSocket.send(renderNotification(quote, subId));
      }
    }
  }

  #find(quoteId: string): PolledQuote | undefined {
    return this.#quotes[fieldQuoteNumber(this.#number, quoteId) ?? -1];
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

/** A quote and its polls. Times of `performance.now()`. */
interface PolledQuote extends OpenQuote {
  /** When the service last asked about it. */
  askedAtMs: number;
  /** Since when it is due; null if it is not. */
  dueAtMs: number | null;
}

function renderNotification(quote: PolledQuote, subId: string): string {
  const params = `{"subId":"${subId}","payload":${renderQuote(quote)}}`;
  return `{"jsonrpc":"2.0","method":"subscribe","params":${params}}`;
}

/** As Nutshell returns a quote that it has looked up. */
function renderQuote(quote: PolledQuote): string {
  const state = stateOf(quote);
  return JSON.stringify({
    quote: quote.quoteId,
    request: fieldInvoice(quote.quoteId),
    amount: AMOUNT_SAT,
    unit: 'sat',
    amount_paid: state === 'PAID' ? AMOUNT_SAT : 0,
    amount_issued: 0,
    updated_at: STARTED_AT,
    state,
    expiry: null,
    pubkey: '',
  });
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
      for (const [kind, ofKind] of Object.entries(counts)) {
        ofKind.lateness = mints.flatMap((each) => (each.kind === kind ? each.lateness() : []));
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
    lateness: [],
  };
}
