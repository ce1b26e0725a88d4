import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocket, WebSocketServer } from 'ws';

/** What Nutshell counts apart; opening its socket and each message on it count together. */
export const COUNTED_ROUTES = ['create', 'check', 'read', 'info', 'socket'] as const;

type CountedRoute = (typeof COUNTED_ROUTES)[number];

/** One request to the mint, or one message on its socket. Times in milliseconds since 1970. */
export interface CountedRequest {
  route: CountedRoute;
  askedAtMs: number;
  /** Null while there is no answer. */
  answeredAtMs: number | null;
  /** Whether the mint refused it because there were too many. */
  isRefused: boolean;
}

/** Stands between the service and a mint, changes nothing, and keeps a list of what was asked. */
export interface CountingProxy {
  url: string;
  /** The oldest first. */
  requests: readonly CountedRequest[];
  close(): Promise<void>;
}

/**
 * Starts a proxy on `::1`: a mint on `::1` then counts its requests as it counts any stranger's.
 *
 * @param target the mint, `http://[::1]:port`
 */
export async function startCountingProxy(target: string): Promise<CountingProxy> {
  const { hostname, port } = new URL(target);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const requests: CountedRequest[] = [];
  const asked = (route: CountedRoute): CountedRequest => {
    const counted = { route, askedAtMs: Date.now(), answeredAtMs: null, isRefused: false };
    requests.push(counted);
    return counted;
  };

  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    const counted = asked(routeOf(path));
    const forwarded = httpRequest(
      { host, port, path, method: request.method, headers: request.headers },
      (answer) => {
        answered(counted, answer.statusCode === 429);
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    forwarded.on('error', () => response.destroy());
    request.pipe(forwarded);
  });

  const sockets = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) => {
    const handshake = asked('socket');
    const mint = new WebSocket(`${target.replace(/^http/, 'ws')}${request.url}`);
    mint.once('unexpected-response', (_request, answer) => {
      // Nutshell refuses a handshake with 500; it has no other reason to refuse one.
      answered(handshake, true);
      const refusal = `HTTP/1.1 ${answer.statusCode} Refused\r\nConnection: close\r\n\r\n`;
      socket.end(refusal, () => mint.terminate());
    });
    mint.once('open', () => {
      answered(handshake, false);
      sockets.handleUpgrade(request, socket, head, (client) => {
        couple(client, mint, () => asked('socket'));
      });
    });
    mint.on('error', () => socket.destroy());
    socket.on('error', () => mint.terminate());
  });

  server.listen(0, '::1');
  await once(server, 'listening');
  return {
    url: `http://[::1]:${(server.address() as AddressInfo).port}`,
    requests,
    close: async () => {
      for (const client of sockets.clients) {
        client.terminate();
      }
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Hands messages on, both ways; the mint answers those of one socket in order. */
function couple(client: WebSocket, mint: WebSocket, asked: () => CountedRequest): void {
  const unanswered: CountedRequest[] = [];
  client.on('message', (data) => {
    unanswered.push(asked());
    mint.send(String(data));
  });
  mint.on('message', (data) => {
    const text = String(data);
    const message: { result?: unknown; error?: { message: string } } = JSON.parse(text);
    if (message.result !== undefined || message.error !== undefined) {
      const isRefused = message.error?.message.includes('Rate limit exceeded') === true;
      answered(unanswered.shift(), isRefused);
    }
    client.send(text);
  });
  client.on('error', () => client.terminate());
  client.on('close', () => mint.close());
  mint.on('close', () => client.close());
}

function answered(counted: CountedRequest | undefined, isRefused: boolean): void {
  if (counted === undefined) {
    throw new Error('the mint answered a message that was not sent');
  }
  counted.answeredAtMs = Date.now();
  counted.isRefused = isRefused;
}

function routeOf(path: string): CountedRoute {
  switch (path) {
    case '/v1/mint/quote/bolt11':
      return 'create';
    case '/v1/mint/quote/bolt11/check':
      return 'check';
    case '/v1/info':
      return 'info';
    default:
      if (path.startsWith('/v1/mint/quote/bolt11/')) {
        return 'read';
      }
      throw new Error(`the service asked for ${path}, which nobody counts`);
  }
}
