import type { InboundLimits } from '../rate-limits.ts';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { Refusal, tooMany } from '../../errors.ts';
import { Counts } from '../../keyed-counters.ts';
import type { Log } from '../../log.ts';
import type { QuoteSubscribers } from '../../quotes/quote-subscribers.ts';
import { unwrapped } from '../api-description.ts';
import type { Authenticator } from '../authenticate.ts';
import { routedPath } from '../errors.ts';
import type { PublicHost } from '../public-host.ts';
import { clientNetwork } from '../rate-limits.ts';
import { apiErrors } from '../schemas.ts';
import { QuoteSocket, type SocketTerms } from './quote-socket.ts';

/** A socket that has not authenticated by then is closed (spec.md section 6). */
export const SOCKET_AUTH_DEADLINE_MS = 15_000;

const PATH = '/api/v2/ws/quote';
const METHOD = 'GET';

const schema = {
  operationId: 'openQuoteSocket',
  tags: ['Wallets'],
  summary: 'Be told when a quote changes',
  // OpenAPI cannot describe the messages of a WebSocket.
  description: unwrapped(`
A WebSocket. Messages are JSON, \`{"type": ..., "payload": ...}\`:

| From | \`type\` | \`payload\` | |
|---|---|---|---|
| server | \`challenge\` | \`{"url": string, "method": string}\` | what to sign, exactly |
| client | \`challenge-response\` | \`"Nostr <event>"\` | a NIP-98 event in base64, within 15 seconds |
| server | \`challenge-success\` | | from now on there are updates |
| server | \`update\` | \`{"quoteId": string}\` | a quote of this key is new in the list, or its state changed |
| server | \`error\` | string | what is wrong; the connection is closed then |
| client | \`ping\` | | any time |
| server | \`pong\` | | the answer to a ping |

Updates are hints and are not kept: read the list at each start and after each connect. A token does not
sign in here. After a close, connect again, with a growing pause.
`),
  response: {
    101: z.null().meta({ description: 'The connection is a WebSocket now.' }),
    ...apiErrors(400),
  },
};

/** RFC 6455 close code. */
const GOING_AWAY = 1001;

/** Twice the heartbeat: dead sockets have been dropped by then. */
const RETRY_MS = 60_000;

/** Interval of WebSocket pings. A client that has not answered one by the next is dropped. */
export const SOCKET_HEARTBEAT_MS = 30_000;

export const SOCKET_SERVER_OPTIONS = {
  // A signed event in base64 has about 600 bytes; no other message is longer.
  maxPayload: 16 * 1024,
  // A proxy may split a message, a wallet does not. The library's own bound is 16,384.
  maxFragments: 16,
  // Network packets of one message: twice what the longest one takes in the smallest packets of IPv4.
  maxBufferedChunks: 64,
  // For the client's answer to the closing handshake.
  closeTimeout: 1_000,
} as const;

/**
 * The quote WebSocket (spec.md section 6), which notifies a user's wallets of changed quotes. All limits are those of
 * this process.
 */
export class QuoteSockets {
  readonly #publicHost: PublicHost;
  readonly #limits: Pick<InboundLimits, 'sockets' | 'socketsPerAddress'>;
  readonly #terms: SocketTerms;
  readonly #open = new Set<QuoteSocket>();
  /** Connections that count towards the limits, from their handshake on. */
  #connections = 0;
  readonly #connectionsByAddress = new Counts();
  #isClosing = false;

  constructor(parts: {
    authenticator: Authenticator;
    subscribers: QuoteSubscribers;
    publicHost: PublicHost;
    limits: InboundLimits;
    authDeadlineMs: number;
    heartbeatMs: number;
    monotonicMs: () => number;
    log: Log;
  }) {
    const { authenticator, publicHost, limits, ...terms } = parts;
    this.#publicHost = publicHost;
    this.#limits = limits;
    this.#terms = {
      ...terms,
      messagesPerSecond: limits.socketMessages,
      checkEvent: (encoded) => authenticator.checkEvent(encoded, PATH, METHOD).pubkey,
      onEnd: (socket) => this.#open.delete(socket),
    };
  }

  get count(): number {
    return this.#open.size;
  }

  register(app: FastifyInstance): void {
    app.route({
      method: METHOD,
      url: PATH,
      schema,
      onRequest: async (request) => this.#count(request),
      preHandler: detachResponse,
      handler: () => {
        throw new Refusal('invalid', 'This is a WebSocket endpoint.');
      },
      wsHandler: (connection, request) => this.#accept(connection, request),
    });
  }

  /** Closes all sockets with an error message, because wallets reconnect after one only. */
  close(): void {
    this.#isClosing = true;
    for (const socket of this.#open) {
      sayGoodbye(socket);
    }
  }

  /** Counts a connection from its handshake to its end, or rejects the handshake in HTTP. */
  #count(request: FastifyRequest): void {
    const { socket } = request.raw;
    // A closed one emits no `close` that would end its count.
    if (!request.ws || socket.closed) {
      return;
    }
    const { sockets, socketsPerAddress } = this.#limits;
    const address = clientNetwork(request.ip);
    if (socketsPerAddress > 0 && this.#connectionsByAddress.of(address) >= socketsPerAddress) {
      throw tooMany('There are too many connections from this address.', RETRY_MS);
    }
    if (sockets > 0 && this.#connections >= sockets) {
      throw tooMany('There are too many connections.', RETRY_MS);
    }
    this.#connections += 1;
    this.#connectionsByAddress.add(address);
    // `once` would keep a wrapper for each socket.
    socket.on('close', () => {
      this.#connections -= 1;
      this.#connectionsByAddress.remove(address);
    });
  }

  #accept(connection: WebSocket, request: FastifyRequest): void {
    const url = `${this.#publicHost.originFor(request)}${PATH}`;
    dropOnceBroken(connection, request);
    const socket = new QuoteSocket(connection, { url, method: METHOD }, this.#terms);
    this.#open.add(socket);
    if (this.#isClosing) {
      sayGoodbye(socket);
    }
  }
}

/**
 * Hook, the last one before a handshake. The handshake is not answered by Fastify's response, which would keep the
 * request in memory for as long as the connection (ADR 26).
 */
function detachResponse(request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const { socket } = reply.raw;
  if (request.ws && socket !== null) {
    reply.raw.detachSocket(socket);
  }
  done();
}

/** Replaces the plugin's own listener, which would keep the request as well. */
function dropOnceBroken(connection: WebSocket, { log }: FastifyRequest): void {
  connection.removeAllListeners('error');
  connection.on('error', (error) => dropBrokenSocket(error, connection, { log }));
}

function sayGoodbye(socket: QuoteSocket): void {
  socket.refuse('The server is restarting. Please reconnect.', GOING_AWAY);
}

/**
 * Whether a request may become a WebSocket. On any other request an `Upgrade` header is ignored, as HTTP allows:
 * programs send it unasked, for HTTP/2 too.
 */
export function isQuoteSocketUpgrade(request: IncomingMessage): boolean {
  const path = routedPath(request.url ?? '').replace(/\/$/, '');
  return (
    request.method === METHOD &&
    path === PATH &&
    request.headers.upgrade?.toLowerCase() === 'websocket'
  );
}

/** Ends a connection on which something went wrong; given to the WebSocket plugin. */
export function dropBrokenSocket(
  error: Error,
  connection: WebSocket,
  request: Pick<FastifyRequest, 'log'>,
): void {
  // Errors of the client or the network have a code. The WebSocket is already closing, with a reason, and reads for a
  // moment longer: a client that is cut off while it sends never receives the reason.
  if ('code' in error) {
    request.log.debug({ err: error }, 'a quote socket broke');
    return;
  }
  request.log.error({ err: error }, 'a quote socket failed');
  connection.terminate();
}
