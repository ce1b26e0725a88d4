import { WebSocket } from 'ws';
import { z } from 'zod';
import type { Log } from '../../log.ts';
import type { QuoteSubscribers } from '../../notifications/quote-subscribers.ts';
import { MAX_SOCKET_BACKLOG_BYTES } from '../limits.ts';
import { renderError } from '../render-error.ts';
import { takeMessage } from './message-pace.ts';
import type { SocketsByKey } from './sockets-by-key.ts';

/** RFC 6455 close code. */
const POLICY_VIOLATION = 1008;

const clientMessage = z.object({ type: z.string(), payload: z.unknown().optional() });

/** What is the same for every socket; one object, since there may be many thousand sockets. */
export interface SocketTerms {
  authDeadlineMs: number;
  /** Control frames count too; 0: no limit. */
  messagesPerSecond: number;
  /** Gives the key that signed the challenge, or throws a Refusal. */
  checkEvent: (encoded: string) => string;
  subscribers: Pick<QuoteSubscribers, 'add'>;
  byKey: SocketsByKey<QuoteSocket>;
  onEnd: (socket: QuoteSocket) => void;
  /** A clock that never goes back. */
  monotonicMs: () => number;
  log: Log;
}

/** One client's connection, from the challenge to its end. */
export class QuoteSocket {
  readonly #connection: WebSocket;
  readonly #terms: SocketTerms;
  #authDeadline: NodeJS.Timeout | null;
  #pubkey: string | null = null;
  #unsubscribe: (() => void) | null = null;
  /** See {@link takeMessage}. */
  #messageDueMs = 0;
  #unansweredPing: Buffer | null = null;

  constructor(
    connection: WebSocket,
    challenge: { url: string; method: string },
    terms: SocketTerms,
  ) {
    this.#connection = connection;
    this.#terms = terms;
    this.#authDeadline = setTimeout(
      () => this.refuse('Authentication timed out.', POLICY_VIOLATION),
      terms.authDeadlineMs,
    );
    connection.on('message', (data) => this.#receive(String(data)));
    connection.on('ping', () => this.#receivePing());
    connection.on('pong', (data) => this.#receivePong(data));
    // It comes once anyway: `once` would keep a wrapper for each socket.
    connection.on('close', () => {
      this.#leave();
      terms.onEnd(this);
    });
    this.#send('challenge', challenge);
  }

  /** Tells the client what is wrong, and closes. */
  refuse(message: string, code: number): void {
    this.#send('error', message);
    this.#close(code);
  }

  /**
   * Closes for the sake of a newer socket of the same key. Without an `error` message: after one, wallets
   * connect again at once, and devices would push each other out. Some do after any close; they are why
   * a key may have more than a person has devices.
   */
  makeRoom(): void {
    this.#close(POLICY_VIOLATION, 'Too many connections of this key.');
  }

  /**
   * Drops a connection whose other end has not answered since the last time. Only the answer to our own
   * ping counts: what else comes can be sent by somebody who does not read.
   *
   * @param ping what is to be sent back; nobody can guess it
   */
  dropUnlessAlive(ping: Buffer): void {
    if (this.#unansweredPing !== null) {
      // A phone that slept reads it when it wakes; wallets connect again after an error message only.
      this.refuse('The connection was silent. Please reconnect.', POLICY_VIOLATION);
      return;
    }
    if (this.#isBeingRead()) {
      this.#unansweredPing = ping;
      this.#connection.ping(ping);
    }
  }

  #receive(text: string): void {
    if (!this.#isWithinPace()) {
      return;
    }
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

  /** The WebSocket answers a ping by itself; that answer, too, is for somebody to read. */
  #receivePing(): void {
    if (this.#isWithinPace()) {
      this.#isBeingRead();
    }
  }

  #receivePong(data: Buffer): void {
    if (this.#isWithinPace() && this.#unansweredPing?.equals(data) === true) {
      this.#unansweredPing = null;
    }
  }

  #authenticate(payload: unknown): void {
    if (this.#pubkey !== null) {
      return;
    }
    const encoded = typeof payload === 'string' ? /^Nostr\s+(\S+)\s*$/i.exec(payload)?.[1] : null;
    try {
      this.#enter(this.#terms.checkEvent(encoded ?? ''));
    } catch (error) {
      // Thrown here, outside of any request, it would end the process.
      const { message, errorId } = renderError(error, 'api');
      if (errorId !== null) {
        this.#terms.log.error({ err: error, errorId }, 'a quote socket failed');
      }
      this.refuse(message, POLICY_VIOLATION);
    }
  }

  #enter(pubkey: string): void {
    this.#clearAuthDeadline();
    this.#pubkey = pubkey;
    this.#terms.byKey.enter(pubkey, this)?.makeRoom();
    this.#unsubscribe = this.#terms.subscribers.add(pubkey, (quoteId) =>
      this.#send('update', { quoteId }),
    );
    this.#send('challenge-success');
  }

  /**
   * Counts what came. Where it is too many, nothing more is read, not even the answer to the goodbye: a
   * single chunk of a flood has ten thousand messages. What comes while the socket is closing counts, and
   * is not looked at: it costs no further check of a signature.
   *
   * @returns whether it is to be looked at
   */
  #isWithinPace(): boolean {
    const { messagesPerSecond, monotonicMs } = this.#terms;
    if (messagesPerSecond > 0) {
      const dueMs = takeMessage(this.#messageDueMs, monotonicMs(), messagesPerSecond);
      if (dueMs === null) {
        this.#refuseFlood();
        return false;
      }
      this.#messageDueMs = dueMs;
    }
    return this.#connection.readyState === WebSocket.OPEN;
  }

  #refuseFlood(): void {
    if (!this.#connection.isPaused) {
      this.refuse('Too many messages.', POLICY_VIOLATION);
      this.#connection.pause();
    }
  }

  /** @returns whether the client is there to read it */
  #send(type: string, payload?: unknown): boolean {
    if (this.#connection.readyState !== WebSocket.OPEN || !this.#isBeingRead()) {
      return false;
    }
    this.#connection.send(JSON.stringify({ type, ...(payload === undefined ? {} : { payload }) }));
    return true;
  }

  /** Drops a client that does not read. @returns whether it does */
  #isBeingRead(): boolean {
    if (this.#connection.bufferedAmount <= MAX_SOCKET_BACKLOG_BYTES) {
      return true;
    }
    this.#connection.terminate();
    return false;
  }

  #close(code: number, reason?: string): void {
    this.#leave();
    this.#connection.close(code, reason);
  }

  #leave(): void {
    this.#clearAuthDeadline();
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    if (this.#pubkey !== null) {
      this.#terms.byKey.leave(this.#pubkey, this);
    }
  }

  #clearAuthDeadline(): void {
    if (this.#authDeadline !== null) {
      clearTimeout(this.#authDeadline);
      this.#authDeadline = null;
    }
  }
}

function parseMessage(text: string): z.infer<typeof clientMessage> | null {
  try {
    return clientMessage.parse(JSON.parse(text));
  } catch {
    return null;
  }
}
