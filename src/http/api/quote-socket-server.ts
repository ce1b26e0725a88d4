import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { RequestError, rateLimitError } from '../../errors.ts';
import { KeyedCounter } from '../../keyed-counter.ts';
import { computeShare, hasRoom, toAddressPrefixes } from '../../net/address-prefixes.ts';
import type { Authenticator } from '../authenticator.ts';
import type { HttpContext } from '../context.ts';
import { unwrapMarkdown } from '../openapi.ts';
import { normaliseRequestPath } from '../routed-paths.ts';
import { apiErrors } from '../schemas.ts';
import { QuoteSocket, type QuoteSocketOptions } from './quote-socket.ts';

const QUOTE_SOCKET_PATH = '/api/v2/ws/quote';

const schema = {
  operationId: 'openQuoteSocket',
  summary: 'Receive notifications about changed quotes',
  // OpenAPI cannot describe WebSocket messages.
  description: unwrapMarkdown(`
A WebSocket. Messages are JSON, \`{"type": ..., "payload": ...}\`:

| From | \`type\` | \`payload\` | |
|---|---|---|---|
| server | \`challenge\` | \`{"url": string, "method": string}\` | the URL and method to sign |
| client | \`challenge-response\` | \`"Nostr <event>"\` | a base64 NIP-98 event, within 15 seconds |
| server | \`challenge-success\` | | authentication succeeded; updates follow |
| server | \`update\` | \`{"quoteId": string}\` | a quote of this key was added to the list or changed state |
| server | \`error\` | string | an error; the server then closes the connection |
| client | \`ping\` | | allowed at any time |
| server | \`pong\` | | the response to a ping |

Updates are hints and are not stored: read the quote list at each start and after each connect. JWTs are not
accepted. After a close, reconnect with exponential backoff.
`),
  response: {
    101: z.null().meta({ description: 'The connection is now a WebSocket.' }),
    ...apiErrors(400),
  },
};

/** Tests replace the times of {@link QuoteSocketServer} by shorter ones. */
export type QuoteSocketTiming = Partial<
  Pick<QuoteSocketOptions, 'authTimeoutMs' | 'heartbeatIntervalMs'>
>;

export class QuoteSocketServer {
  readonly #context: HttpContext;
  readonly #socketOptions: QuoteSocketOptions;
  readonly #openSockets = new Set<QuoteSocket>();
  /** Unlike {@link #openSockets}, includes connections whose handshake is not complete. */
  #connectionCount = 0;
  readonly #connectionsByPrefix = new KeyedCounter();
  #isClosing = false;

  constructor(context: HttpContext, authenticator: Authenticator, timing: QuoteSocketTiming) {
    this.#context = context;
    this.#socketOptions = {
      context,
      authTimeoutMs: 15_000,
      heartbeatIntervalMs: 30_000,
      ...timing,
      verifyChallengeResponse: (encoded) =>
        authenticator.verifyNip98Event(encoded, QUOTE_SOCKET_PATH, 'GET').pubkey,
      onClosed: (socket) => this.#openSockets.delete(socket),
    };
  }

  get count(): number {
    return this.#openSockets.size;
  }

  registerRoute(app: FastifyInstance): void {
    app.route({
      method: 'GET',
      url: QUOTE_SOCKET_PATH,
      schema,
      onRequest: async (request) => this.#admitConnection(request),
      preHandler: detachHandshakeResponse,
      handler: () => {
        throw new RequestError('invalid', 'This is a WebSocket endpoint.');
      },
      wsHandler: (webSocket, request) => this.#openQuoteSocket(webSocket, request),
    });
  }

  closeAll(): void {
    this.#isClosing = true;
    for (const quoteSocket of this.#openSockets) {
      // After an error message, wallets reconnect. 1001 means "going away" (RFC 6455).
      quoteSocket.closeWithError('The server is restarting. Please reconnect.', 1001);
    }
  }

  /** Counts a connection until it closes. Throws if a limit is reached, so that the handshake gets a response. */
  #admitConnection(request: FastifyRequest): void {
    const connection = request.raw.socket;
    // A closed connection emits no further `close` event, so it would count for ever.
    if (!request.ws || connection.closed) {
      return;
    }
    const { maxSockets, maxSocketsPerAddress } = this.#context.limits;
    const prefixes = toAddressPrefixes(request.ip);
    const counts = prefixes.map(({ key }) => this.#connectionsByPrefix.get(key));
    // The more sockets are open, the smaller is the part of its limit that an address may use.
    const share = computeShare(this.#connectionCount, maxSockets);
    // Dead connections are closed within two heartbeat intervals.
    const retryAfterMs = 60_000;
    if (!hasRoom(prefixes, counts, maxSocketsPerAddress)) {
      throw rateLimitError('There are too many connections from your IP address.', retryAfterMs);
    }
    // If addresses have no limit, `hasRoom` ignores the share.
    if (share === 0 || !hasRoom(prefixes, counts, maxSocketsPerAddress, share)) {
      throw rateLimitError('There are too many connections.', retryAfterMs);
    }
    this.#connectionCount += 1;
    for (const { key } of prefixes) {
      this.#connectionsByPrefix.increment(key);
    }
    connection.once('close', () => {
      this.#connectionCount -= 1;
      for (const { key } of prefixes) {
        this.#connectionsByPrefix.decrement(key);
      }
    });
  }

  #openQuoteSocket(webSocket: WebSocket, request: FastifyRequest): void {
    const origin = this.#context.publicOrigins.getOriginForRequest(request);
    const challengeUrl = `${origin}${QUOTE_SOCKET_PATH}`;
    const { log } = request;
    // The plugin's own error listener would keep the request in memory (ADR 26).
    webSocket.removeAllListeners('error');
    webSocket.on('error', (error) => handleSocketError(error, webSocket, { log }));
    const quoteSocket = new QuoteSocket(webSocket, challengeUrl, this.#socketOptions);
    this.#openSockets.add(quoteSocket);
    if (this.#isClosing) {
      this.closeAll();
    }
  }
}

/** Detaches Fastify's response from the connection, because it would keep the request in memory (ADR 26). */
async function detachHandshakeResponse({ ws }: FastifyRequest, { raw }: FastifyReply) {
  if (ws && raw.socket !== null) {
    raw.detachSocket(raw.socket);
  }
}

/** Whether a request opens a quote socket. Some programs ask for an upgrade to HTTP/2 in each request. */
export function isQuoteSocketUpgrade(request: IncomingMessage): boolean {
  const path = normaliseRequestPath(request.url ?? '').replace(/\/$/, '');
  return (
    request.method === 'GET' &&
    path === QUOTE_SOCKET_PATH &&
    request.headers.upgrade?.toLowerCase() === 'websocket'
  );
}

export function handleSocketError(
  error: Error,
  webSocket: WebSocket,
  request: Pick<FastifyRequest, 'log'>,
): void {
  // Protocol and network errors have a code. After these, the library closes the WebSocket itself.
  if ('code' in error) {
    request.log.debug({ event: 'quote_socket_broken', err: error }, 'quote socket broken');
    return;
  }
  request.log.error({ event: 'quote_socket_failed', err: error }, 'quote socket failed');
  webSocket.terminate();
}
