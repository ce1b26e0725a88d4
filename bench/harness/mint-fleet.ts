import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { json, text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { type WebSocket, WebSocketServer } from 'ws';

/**
 * The kinds of mints in this program, which runs many small mints in one process, each on a different port. The mints
 * know every quote that the `watcher` figure inserts into the database. They cannot create quotes.
 *
 * - `fast`: responds immediately; supports batches (NUT-29) and a WebSocket (NUT-17).
 * - `plain`: responds immediately; supports only single quotes.
 * - `slow`: like `fast`, but every response takes {@link SLOW_RESPONSE_MS}.
 * - `dead`: accepts connections but never responds.
 */
export type MintKind = 'fast' | 'plain' | 'slow' | 'dead';

/** The JSON line that the process prints when all mints listen. */
export interface MintFleet {
  /** In the order of the kinds that the process read from standard input. */
  mintUrls: string[];
  /** `POST` with a quote id pays that quote. `GET` returns {@link FleetCounts}. */
  controlUrl: string;
}

export interface FleetCounts {
  batchChecks: number;
  singleChecks: number;
  /** Open WebSockets. */
  sockets: number;
  /** Requests that no mint accepts. The service must not send any. */
  invalidRequests: number;
}

/** Just below the request timeout of the service. */
const SLOW_RESPONSE_MS = 10_000;

/** Nutshell's limits. */
const MAX_BATCH_SIZE = 1_000;
const MAX_SUBSCRIPTIONS = 1_000;

const QUOTE_CHECK_PREFIX = 'GET /v1/mint/quote/bolt11/';

interface MintResponse {
  status: number;
  body: unknown;
}

interface SocketRequest {
  id: number;
  method: string;
  params: { subId: string; filters?: string[] };
}

const counts: FleetCounts = { batchChecks: 0, singleChecks: 0, sockets: 0, invalidRequests: 0 };
const paidQuoteIds = new Set<string>();
/** Functions that send the state of a quote to its subscriber, by quote id. */
const notifyByQuoteId = new Map<string, () => void>();
const webSockets = new WebSocketServer({ noServer: true });

const kinds = (await json(process.stdin)) as MintKind[];
const mintUrls = await Promise.all(kinds.map(startMint));
const controlUrl = await listen(async (incoming, response) => {
  const quoteId = await text(incoming);
  if (incoming.method === 'POST') {
    paidQuoteIds.add(quoteId);
    notifyByQuoteId.get(quoteId)?.();
  }
  response.end(JSON.stringify(counts));
});
process.stdout.write(`${JSON.stringify({ mintUrls, controlUrl } satisfies MintFleet)}\n`);

async function startMint(kind: MintKind): Promise<string> {
  const respond = async (incoming: IncomingMessage, response: ServerResponse) => {
    const { status, body } = getResponse(kind, incoming, await text(incoming));
    await simulateLatency(kind);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  return listen(respond, async (incoming, socket, head) => {
    socket.on('error', () => socket.destroy());
    await simulateLatency(kind);
    if (kind === 'plain') {
      socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    } else {
      webSockets.handleUpgrade(incoming, socket, head, (webSocket) =>
        acceptSocket(kind, webSocket),
      );
    }
  });
}

async function listen(
  respond: (incoming: IncomingMessage, response: ServerResponse) => Promise<void>,
  upgrade?: (incoming: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void>,
): Promise<string> {
  const server = createServer((incoming, response) => {
    respond(incoming, response).catch(() => response.destroy());
  });
  if (upgrade !== undefined) {
    server.on('upgrade', (incoming, socket, head) => void upgrade(incoming, socket, head));
  }
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function getResponse(kind: MintKind, { method, url }: IncomingMessage, body: string): MintResponse {
  const route = `${method} ${url}`;
  if (route === 'GET /v1/info') {
    return { status: 200, body: buildInfo(kind) };
  }
  if (route === 'POST /v1/mint/quote/bolt11/check') {
    if (kind === 'plain') {
      return { status: 405, body: { detail: 'Method Not Allowed' } };
    }
    const { quotes } = JSON.parse(body) as { quotes: string[] };
    counts.batchChecks += 1;
    if (quotes.length <= MAX_BATCH_SIZE) {
      return { status: 200, body: quotes.map(buildQuote) };
    }
  }
  if (route.startsWith(QUOTE_CHECK_PREFIX)) {
    counts.singleChecks += 1;
    return { status: 200, body: buildQuote(route.slice(QUOTE_CHECK_PREFIX.length)) };
  }
  counts.invalidRequests += 1;
  return { status: 404, body: { detail: 'not found', code: 0 } };
}

function acceptSocket(kind: MintKind, webSocket: WebSocket): void {
  const subscribedIds = new Set<string>();
  counts.sockets += 1;
  webSocket.on('error', () => webSocket.terminate());
  webSocket.on('close', () => {
    counts.sockets -= 1;
    for (const quoteId of subscribedIds) {
      notifyByQuoteId.delete(quoteId);
    }
  });
  webSocket.on('message', (data) => {
    void simulateLatency(kind).then(() => subscribe(JSON.parse(String(data)) as SocketRequest));
  });
  const send = (message: object) => webSocket.send(JSON.stringify(message));
  const subscribe = ({ id, method, params: { subId, filters = [] } }: SocketRequest) => {
    if (method !== 'subscribe' || subscribedIds.size + filters.length > MAX_SUBSCRIPTIONS) {
      counts.invalidRequests += 1;
      send({ jsonrpc: '2.0', error: { code: -32603, message: 'Max subscriptions reached' }, id });
      return;
    }
    send({ jsonrpc: '2.0', result: { status: 'OK', subId }, id });
    for (const quoteId of filters) {
      const notify = () =>
        send({
          jsonrpc: '2.0',
          method: 'subscribe',
          params: { subId, payload: buildQuote(quoteId) },
        });
      subscribedIds.add(quoteId);
      notifyByQuoteId.set(quoteId, notify);
      notify();
    }
  };
}

async function simulateLatency(kind: MintKind): Promise<void> {
  if (kind === 'slow') {
    await delay(SLOW_RESPONSE_MS);
  } else if (kind === 'dead') {
    await new Promise(() => undefined);
  }
}

/** A quote whose id starts with `p` is paid from the beginning. */
function buildQuote(quoteId: string) {
  const isPaid = quoteId.startsWith('p') || paidQuoteIds.has(quoteId);
  return {
    quote: quoteId,
    request: `lnbc210n1p${quoteId}`.padEnd(320, 'q'),
    amount: 21,
    unit: 'sat',
    state: isPaid ? 'PAID' : 'UNPAID',
    expiry: null,
  };
}

/** Returns the body of `GET /v1/info` (NUT-06). */
function buildInfo(kind: MintKind) {
  const bolt11 = { method: 'bolt11', unit: 'sat' };
  return {
    name: 'Cashu mint',
    version: 'Nutshell/0.20.2',
    nuts: {
      4: { methods: [{ ...bolt11, options: { description: true } }], disabled: false },
      5: { methods: [bolt11], disabled: false },
      20: { supported: true },
      ...(kind !== 'plain' && {
        17: { supported: [{ ...bolt11, commands: ['bolt11_mint_quote'] }] },
        29: { supported: true, max_batch_size: MAX_BATCH_SIZE, methods: ['bolt11'] },
      }),
    },
  };
}
