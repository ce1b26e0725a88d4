import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { listenOnLoopback } from '../network/loopback-server.ts';
import { buildQuoteNotification } from './fake-websocket-mint.ts';

/**
 * How a mint causes work:
 *
 * - `changes states`: reports each quote in turn as PENDING and PAID, in responses and notifications.
 * - `fails`: closes its WebSockets, and responds to other requests with status 500.
 * - `hangs`: responds to no request.
 */
export const HOSTILE_BEHAVIOURS = ['changes states', 'fails', 'hangs'] as const;

type HostileBehaviour = (typeof HOSTILE_BEHAVIOURS)[number];

export const HOSTILE_MINT_INFO = {
  nuts: {
    4: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false },
    17: { supported: [{ method: 'bolt11', unit: 'sat', commands: ['bolt11_mint_quote'] }] },
    29: { supported: true, max_batch_size: 1_000 },
  },
};

/** The service tolerates this rate for as long as the connection lasts. */
const NOTIFICATION_INTERVAL_MS = 2_000;

const INTERNAL_SERVER_ERROR = 500;

export async function startHostileMints(
  behaviours: readonly HostileBehaviour[],
): Promise<string[]> {
  const mints = await Promise.all(
    behaviours.map(async (behaviour) => {
      const server = createServer((request, response) => {
        void respond(behaviour, request, response);
      });
      const webSocketServer = new WebSocketServer({ noServer: true });
      server.on('upgrade', (request, socket, head) => {
        if (behaviour === 'changes states') {
          webSocketServer.handleUpgrade(request, socket, head, notifyChanges);
        } else if (behaviour === 'fails') {
          socket.destroy();
        }
      });
      return await listenOnLoopback(server);
    }),
  );
  onTestFinished(async () => {
    await Promise.all(mints.map((mint) => mint.close()));
  });
  return mints.map(({ url }) => url);
}

/** By quote. Each report of a quote changes its state. */
const reportCounts = new Map<string, number>();

function nextState(quoteId: string): string {
  const count = reportCounts.get(quoteId) ?? 0;
  reportCounts.set(quoteId, count + 1);
  return count % 2 === 0 ? 'PENDING' : 'PAID';
}

async function respond(
  behaviour: HostileBehaviour,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (behaviour === 'fails') {
    response.writeHead(INTERNAL_SERVER_ERROR).end();
  } else if (behaviour === 'changes states') {
    const body = await text(request);
    const { pathname } = new URL(request.url ?? '', 'http://mint.example');
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(buildResponse(pathname, body)));
  }
}

function buildResponse(pathname: string, body: string): unknown {
  if (pathname === '/v1/info') {
    return HOSTILE_MINT_INFO;
  }
  if (pathname.endsWith('/check')) {
    const { quotes } = JSON.parse(body) as { quotes: string[] };
    return quotes.map((quote) => ({ quote, state: nextState(quote) }));
  }
  const quote = pathname.split('/').at(-1) ?? '';
  return { quote, state: nextState(quote) };
}

function notifyChanges(socket: WebSocket): void {
  let quotes: string[] = [];
  let next = 0;
  const timer = setInterval(() => {
    const quote = quotes[next % quotes.length];
    next += 1;
    if (quote !== undefined) {
      socket.send(JSON.stringify(buildQuoteNotification(quote, nextState(quote))));
    }
  }, NOTIFICATION_INTERVAL_MS);
  socket.on('close', () => clearInterval(timer));
  socket.on('error', () => undefined);
  socket.on('message', (data) => {
    const { id, params } = JSON.parse(String(data)) as {
      id: number;
      params: { subId: string; filters: string[] };
    };
    quotes = [...quotes, ...params.filters];
    socket.send(
      JSON.stringify({ jsonrpc: '2.0', id, result: { status: 'OK', subId: params.subId } }),
    );
  });
}
