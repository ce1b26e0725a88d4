import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { Refusal } from '../../domain/errors.ts';
import type { Log } from '../../log.ts';
import type { QuoteSubscribers } from '../../notifications/quote-subscribers.ts';
import type { Authenticator } from '../authenticate.ts';
import { MAX_SOCKET_BACKLOG_BYTES, SOCKET_HEARTBEAT_MS } from '../limits.ts';
import type { PublicHost } from '../public-host.ts';
import { renderError } from '../render-error.ts';

const PATH = '/api/v2/ws/quote';
const METHOD = 'GET';

/** RFC 6455 close codes. */
const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;

/** A client that does not answer the closing handshake by then must not hold up the end. */
const GOODBYE_MS = 1_000;

const clientMessage = z.object({ type: z.string(), payload: z.unknown().optional() });

/** The quote WebSocket (spec.md section 6): tells a user's wallets that quotes changed. */
export class QuoteSockets {
  readonly #authenticator: Authenticator;
  readonly #subscribers: Pick<QuoteSubscribers, 'add'>;
  readonly #publicHost: PublicHost;
  readonly #authDeadlineMs: number;
  readonly #log: Log;
  readonly #open = new Set<QuoteSocket>();
  readonly #heartbeat: NodeJS.Timeout;

  constructor(parts: {
    authenticator: Authenticator;
    subscribers: Pick<QuoteSubscribers, 'add'>;
    publicHost: PublicHost;
    authDeadlineMs: number;
    log: Log;
  }) {
    this.#log = parts.log;
    this.#authenticator = parts.authenticator;
    this.#subscribers = parts.subscribers;
    this.#publicHost = parts.publicHost;
    this.#authDeadlineMs = parts.authDeadlineMs;
    this.#heartbeat = setInterval(() => this.#dropDeadSockets(), SOCKET_HEARTBEAT_MS).unref();
  }

  /** Adds the route to the server. */
  register(app: FastifyInstance): void {
    app.route({
      method: METHOD,
      url: PATH,
      handler: () => {
        throw new Refusal('invalid', 'This is a WebSocket endpoint.');
      },
      wsHandler: (socket, request) => this.#accept(socket, request),
    });
  }

  /** Tells every client why before it closes: wallets reconnect after an error message only. */
  close(): void {
    clearInterval(this.#heartbeat);
    for (const socket of this.#open) {
      socket.refuse('The server is restarting. Please reconnect.', GOING_AWAY);
    }
    setTimeout(() => this.#terminateAll(), GOODBYE_MS).unref();
  }

  #accept(connection: WebSocket, request: FastifyRequest): void {
    const socket = new QuoteSocket(connection, {
      challengeUrl: `${this.#publicHost.originFor(request)}${PATH}`,
      authDeadlineMs: this.#authDeadlineMs,
      checkEvent: (encoded) => this.#authenticator.checkEvent(encoded, PATH, METHOD).pubkey,
      subscribers: this.#subscribers,
      log: this.#log,
    });
    this.#open.add(socket);
    connection.once('close', () => this.#open.delete(socket));
  }

  #terminateAll(): void {
    for (const socket of this.#open) {
      socket.terminate();
    }
  }

  #dropDeadSockets(): void {
    for (const socket of this.#open) {
      socket.dropUnlessAlive();
    }
  }
}

/** One client's connection, from the challenge to its end. */
class QuoteSocket {
  readonly #connection: WebSocket;
  readonly #checkEvent: (encoded: string) => string;
  readonly #subscribers: Pick<QuoteSubscribers, 'add'>;
  readonly #authDeadline: NodeJS.Timeout;
  readonly #log: Log;
  #unsubscribe: (() => void) | null = null;
  #isAlive = true;

  /** @param parts.checkEvent gives the key that signed the challenge, or throws a Refusal */
  constructor(
    connection: WebSocket,
    parts: {
      challengeUrl: string;
      authDeadlineMs: number;
      checkEvent: (encoded: string) => string;
      subscribers: Pick<QuoteSubscribers, 'add'>;
      log: Log;
    },
  ) {
    this.#log = parts.log;
    this.#connection = connection;
    this.#checkEvent = parts.checkEvent;
    this.#subscribers = parts.subscribers;
    this.#authDeadline = setTimeout(
      () => this.refuse('Authentication timed out.', POLICY_VIOLATION),
      parts.authDeadlineMs,
    );
    connection.on('message', (data) => this.#receive(String(data)));
    connection.on('pong', () => {
      this.#isAlive = true;
    });
    // A broken connection is followed by 'close'; there is nobody left to tell.
    connection.on('error', () => undefined);
    connection.once('close', () => this.#end());
    this.#send('challenge', { url: parts.challengeUrl, method: METHOD });
  }

  /** Tells the client what is wrong, and closes. */
  refuse(message: string, code: number): void {
    this.#send('error', message);
    this.#connection.close(code);
  }

  /** Ends the connection at once. */
  terminate(): void {
    this.#connection.terminate();
  }

  /** Drops a connection whose other end has not answered since the last time. */
  dropUnlessAlive(): void {
    if (!this.#isAlive) {
      this.#connection.terminate();
      return;
    }
    this.#isAlive = false;
    this.#connection.ping();
  }

  #receive(text: string): void {
    this.#isAlive = true;
    const message = parseMessage(text);
    switch (message?.type) {
      case 'ping':
        this.#send('pong');
        return;
      case 'challenge-response':
        this.#authenticate(message.payload);
        return;
      default:
        // Older clients send other messages too; they need no answer.
        return;
    }
  }

  #authenticate(payload: unknown): void {
    if (this.#unsubscribe !== null) {
      return;
    }
    const encoded = typeof payload === 'string' ? /^Nostr\s+(\S+)\s*$/i.exec(payload)?.[1] : null;
    try {
      const pubkey = this.#checkEvent(encoded ?? '');
      clearTimeout(this.#authDeadline);
      this.#unsubscribe = this.#subscribers.add(pubkey, (quoteId) =>
        this.#send('update', { quoteId }),
      );
      this.#send('challenge-success');
    } catch (error) {
      // Thrown here, outside of any request, it would end the process.
      const rendered = renderError(error, 'api');
      if (rendered.isUnexpected) {
        this.#log.error({ err: error }, 'a quote socket failed');
      }
      this.refuse(rendered.message, POLICY_VIOLATION);
    }
  }

  /** @returns whether the client is there to read it */
  #send(type: string, payload?: unknown): boolean {
    if (this.#connection.readyState !== WebSocket.OPEN) {
      return false;
    }
    if (this.#connection.bufferedAmount > MAX_SOCKET_BACKLOG_BYTES) {
      this.#connection.terminate();
      return false;
    }
    this.#connection.send(JSON.stringify({ type, ...(payload === undefined ? {} : { payload }) }));
    return true;
  }

  #end(): void {
    clearTimeout(this.#authDeadline);
    this.#unsubscribe?.();
    this.#unsubscribe = null;
  }
}

/**
 * Whether a request may become a WebSocket. On any other one an `Upgrade` header is passed over, as
 * HTTP allows: programs send it unasked, for HTTP/2 too.
 */
export function isQuoteSocketUpgrade(request: IncomingMessage): boolean {
  const path = (request.url ?? '')
    .replace(/[?#].*$/, '')
    .replace(/\/{2,}/g, '/')
    .replace(/\/$/, '');
  return path === PATH && request.headers.upgrade?.toLowerCase() === 'websocket';
}

/** Ends a connection on which something went wrong; given to the WebSocket plugin. */
export function dropBrokenSocket(
  error: Error,
  connection: WebSocket,
  request: FastifyRequest,
): void {
  // What the other end or the network did has a code; anything else is a bug.
  request.log['code' in error ? 'debug' : 'error']({ err: error }, 'a quote socket broke');
  connection.terminate();
}

function parseMessage(text: string): z.infer<typeof clientMessage> | null {
  try {
    return clientMessage.parse(JSON.parse(text));
  } catch {
    return null;
  }
}
