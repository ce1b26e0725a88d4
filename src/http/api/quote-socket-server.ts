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

/** Tests shorten the times. */
export type QuoteSocketTiming = Pick<QuoteSocketOptions, 'authTimeoutMs' | 'heartbeatIntervalMs'>;

export class QuoteSocketServer {
  readonly #context: HttpContext;
  readonly #socketOptions: QuoteSocketOptions;
  readonly #openSockets = new Set<QuoteSocket>();
  /** Includes connections whose handshake is not complete. */
  #connectionCount = 0;
  readonly #connectionsByPrefix = new KeyedCounter();
  #isClosing = false;

  constructor(
    context: HttpContext,
    authenticator: Authenticator,
    timing: Partial<QuoteSocketTiming>,
  ) {
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
      wsHandler: (connection, request) => this.#openSocket(connection, request),
    });
  }

  closeAll(): void {
    this.#isClosing = true;
    for (const socket of this.#openSockets) {
      closeForRestart(socket);
    }
  }

  /** Counts a connection until it closes. Throws if a limit is reached, so that the handshake gets a response. */
  #admitConnection(request: FastifyRequest): void {
    const { socket } = request.raw;
    // A closed socket emits no `close` event, so it would count for ever.
    if (!request.ws || socket.closed) {
      return;
    }
    const { maxSockets, maxSocketsPerAddress } = this.#context.limits;
    const prefixes = toAddressPrefixes(request.ip);
    const counts = prefixes.map(({ key }) => this.#connectionsByPrefix.get(key));
    const share = computeShare(this.#connectionCount, maxSockets);
    const hasAddressRoom = hasRoom(prefixes, counts, maxSocketsPerAddress);
    if (!hasAddressRoom || share === 0 || !hasRoom(prefixes, counts, maxSocketsPerAddress, share)) {
      const message = hasAddressRoom
        ? 'There are too many connections.'
        : 'There are too many connections from this address.';
      // Dead connections are closed within two heartbeat intervals.
      throw rateLimitError(message, 60_000);
    }
    this.#connectionCount += 1;
    for (const { key } of prefixes) {
      this.#connectionsByPrefix.increment(key);
    }
    socket.once('close', () => {
      this.#connectionCount -= 1;
      for (const { key } of prefixes) {
        this.#connectionsByPrefix.decrement(key);
      }
    });
  }

  #openSocket(connection: WebSocket, request: FastifyRequest): void {
    const url = `${this.#context.publicOrigins.getOriginForRequest(request)}${QUOTE_SOCKET_PATH}`;
    const { log } = request;
    // The plugin's own error listener would keep the request in memory (ADR 26).
    connection.removeAllListeners('error');
    connection.on('error', (error) => handleSocketError(error, connection, { log }));
    const socket = new QuoteSocket(connection, { url, method: 'GET' }, this.#socketOptions);
    this.#openSockets.add(socket);
    if (this.#isClosing) {
      closeForRestart(socket);
    }
  }
}

/** Detaches Fastify's response from the connection, because it would keep the request in memory (ADR 26). */
async function detachHandshakeResponse({ ws }: FastifyRequest, { raw }: FastifyReply) {
  if (ws && raw.socket !== null) {
    raw.detachSocket(raw.socket);
  }
}

/** Sends an error message, so that wallets reconnect. */
function closeForRestart(socket: QuoteSocket): void {
  // "Going away" in RFC 6455.
  socket.closeWithError('The server is restarting. Please reconnect.', 1001);
}

/** Whether to upgrade a request. Other upgrades are ignored, because some programs always request HTTP/2. */
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
  connection: WebSocket,
  request: Pick<FastifyRequest, 'log'>,
): void {
  // Protocol and network errors have a code. After these, the library closes the connection itself.
  if ('code' in error) {
    request.log.debug({ event: 'quote_socket_broken', err: error }, 'quote socket broken');
    return;
  }
  request.log.error({ event: 'quote_socket_failed', err: error }, 'quote socket failed');
  connection.terminate();
}
