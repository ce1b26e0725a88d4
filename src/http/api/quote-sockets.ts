import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { clientNetwork } from '../../domain/client-network.ts';
import { Refusal, tooMany } from '../../domain/errors.ts';
import type { InboundLimits } from '../../domain/limits.ts';
import type { Log } from '../../log.ts';
import type { QuoteSubscribers } from '../../notifications/quote-subscribers.ts';
import { QUOTE_SOCKET_OVERVIEW } from '../api-overview.ts';
import type { Authenticator } from '../authenticate.ts';
import { apiErrors } from '../error-answers.ts';
import {
  MAX_SOCKET_CHUNKS,
  MAX_SOCKET_FRAGMENTS,
  MAX_SOCKET_MESSAGE_BYTES,
  SOCKET_GOODBYE_MS,
} from '../limits.ts';
import type { PublicHost } from '../public-host.ts';
import { routedPath } from '../routed-path.ts';
import { QuoteSocket, type SocketTerms } from './quote-socket.ts';
import { type Reservation, SocketAllowances } from './socket-allowances.ts';
import { SocketsByKey } from './sockets-by-key.ts';

const PATH = '/api/v2/ws/quote';
const METHOD = 'GET';

const schema = {
  operationId: 'openQuoteSocket',
  tags: ['Wallets'],
  summary: 'Be told when a quote changes',
  description: QUOTE_SOCKET_OVERVIEW,
  response: {
    101: z.null().meta({ description: 'The connection is a WebSocket now.' }),
    ...apiErrors(400),
  },
};

/** RFC 6455 close code. */
const GOING_AWAY = 1001;

/** Twice the heartbeat: what is dead by now has been dropped by then. */
const RETRY_MS = 60_000;

/** 20,000 pings in one go would hold everything else up for nearly a second; 50 take 2 ms. */
const PINGS_AT_ONCE = 50;

/** With {@link PINGS_AT_ONCE}: 20,000 sockets are asked within 10 s. */
const PING_PAUSE_MS = 25;

/** As much as nobody can guess. */
const PING_BYTES = 8;

/** What the WebSocket plugin is told. */
export const SOCKET_SERVER_OPTIONS = {
  maxPayload: MAX_SOCKET_MESSAGE_BYTES,
  maxFragments: MAX_SOCKET_FRAGMENTS,
  maxBufferedChunks: MAX_SOCKET_CHUNKS,
  closeTimeout: SOCKET_GOODBYE_MS,
} as const;

/**
 * The quote WebSocket (spec.md section 6): tells a user's wallets that quotes changed. All of its limits
 * are those of this process; several processes behind one name bear as many sockets each.
 */
export class QuoteSockets {
  readonly #publicHost: PublicHost;
  readonly #allowances: SocketAllowances;
  readonly #terms: SocketTerms;
  readonly #heartbeatMs: number;
  readonly #open = new Set<QuoteSocket>();
  readonly #closing = new AbortController();

  /** @param parts.monotonicMs a clock that never goes back */
  constructor(parts: {
    authenticator: Authenticator;
    subscribers: Pick<QuoteSubscribers, 'add'>;
    publicHost: PublicHost;
    limits: InboundLimits;
    authDeadlineMs: number;
    heartbeatMs: number;
    monotonicMs: () => number;
    log: Log;
  }) {
    this.#publicHost = parts.publicHost;
    this.#allowances = new SocketAllowances(parts.limits);
    this.#terms = {
      authDeadlineMs: parts.authDeadlineMs,
      messagesPerSecond: parts.limits.socketMessages,
      checkEvent: (encoded) => parts.authenticator.checkEvent(encoded, PATH, METHOD).pubkey,
      subscribers: parts.subscribers,
      byKey: new SocketsByKey(parts.limits.socketsPerKey),
      onEnd: (socket) => this.#open.delete(socket),
      monotonicMs: parts.monotonicMs,
      log: parts.log,
    };
    this.#heartbeatMs = parts.heartbeatMs;
    void this.#dropDeadSockets();
  }

  /** How many there are now, signed in or not. */
  get count(): number {
    return this.#open.size;
  }

  /** Adds the route to the server. */
  register(app: FastifyInstance): void {
    app.route({
      method: METHOD,
      url: PATH,
      schema,
      onRequest: async (request) => this.#reserve(request),
      preHandler: letGoOfAnswer,
      handler: () => {
        throw new Refusal('invalid', 'This is a WebSocket endpoint.');
      },
      wsHandler: (connection, request) => this.#accept(connection, request),
    });
  }

  /**
   * Tells every client why before it closes, also one that was just about to come: wallets reconnect after
   * an error message only.
   */
  close(): void {
    this.#closing.abort();
    for (const socket of this.#open) {
      sayGoodbye(socket);
    }
  }

  /**
   * Counts a handshake before it is answered; a refused one is answered in HTTP. From here to the end of
   * its connection it counts, whether it becomes a WebSocket or is found to be none.
   */
  #reserve(request: FastifyRequest): void {
    const { socket } = request.raw;
    // What was closed before would never be given back.
    if (!request.ws || socket.closed) {
      return;
    }
    const network = clientNetwork(request.ip);
    const reservation = this.#allowances.reserve(network);
    if (reservation !== 'granted') {
      throw tooMany(NO_ROOM[reservation], RETRY_MS);
    }
    // It comes once anyway: `once` would keep a wrapper for each socket.
    socket.on('close', () => this.#allowances.release(network));
  }

  #accept(connection: WebSocket, request: FastifyRequest): void {
    const url = `${this.#publicHost.originFor(request)}${PATH}`;
    dropOnceBroken(connection, request);
    const socket = new QuoteSocket(connection, { url, method: METHOD }, this.#terms);
    this.#open.add(socket);
    if (this.#closing.signal.aborted) {
      sayGoodbye(socket);
    }
  }

  async #dropDeadSockets(): Promise<void> {
    while (await this.#pause(this.#heartbeatMs)) {
      const ping = randomBytes(PING_BYTES);
      let asked = 0;
      for (const socket of this.#open) {
        socket.dropUnlessAlive(ping);
        asked += 1;
        if (asked % PINGS_AT_ONCE === 0 && !(await this.#pause(PING_PAUSE_MS))) {
          return;
        }
      }
    }
  }

  /** @returns false where the end has come */
  async #pause(pauseMs: number): Promise<boolean> {
    const { signal } = this.#closing;
    await delay(pauseMs, undefined, { signal, ref: false }).catch(() => undefined);
    return !signal.aborted;
  }
}

/**
 * Hook, the last before a handshake is answered, which is not done by Fastify's answer: that would keep the
 * request, headers and all, for as long as the connection. Of 20,000 connections that is 50 MB (ADR 26).
 */
function letGoOfAnswer(request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const { socket } = reply.raw;
  if (request.ws && socket !== null) {
    reply.raw.detachSocket(socket);
  }
  done();
}

/** In place of the plugin's own listener, which would keep the request as well; its log is enough. */
function dropOnceBroken(connection: WebSocket, { log }: FastifyRequest): void {
  connection.removeAllListeners('error');
  connection.on('error', (error) => dropBrokenSocket(error, connection, { log }));
}

function sayGoodbye(socket: QuoteSocket): void {
  socket.refuse('The server is restarting. Please reconnect.', GOING_AWAY);
}

const NO_ROOM: Record<Exclude<Reservation, 'granted'>, string> = {
  all_taken: 'There are too many connections.',
  all_of_address_taken: 'There are too many connections from this address.',
};

/**
 * Whether a request may become a WebSocket. On any other one an `Upgrade` header is passed over, as
 * HTTP allows: programs send it unasked, for HTTP/2 too.
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
  // What the other end or the network did has a code, and the WebSocket is closing already: it says why,
  // and goes on reading for a moment, since a client that is cut off while it sends never hears it.
  if ('code' in error) {
    request.log.debug({ err: error }, 'a quote socket broke');
    return;
  }
  request.log.error({ err: error }, 'a quote socket failed');
  connection.terminate();
}
