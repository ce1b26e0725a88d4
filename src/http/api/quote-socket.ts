import { randomBytes } from 'node:crypto';
import { WebSocket } from 'ws';
import { z } from 'zod';
import type { Log } from '../../log.ts';
import type { QuoteSubscriber, QuoteSubscribers } from '../../quotes/quote-subscribers.ts';
import { renderError } from '../errors.ts';

/** RFC 6455 close code. */
const POLICY_VIOLATION = 1008;

/** Seconds of messages that a client may send at once, as a wallet does that wakes up. */
const MESSAGE_BURST_SECONDS = 2;

/**
 * A client with a larger backlog does not read: about 400 updates, which take 85 KB of memory. Responses to its own
 * messages cannot fill it before a missed heartbeat, only payments can.
 */
const MAX_SOCKET_BACKLOG_BYTES = 32 * 1024;

/** Too many to guess. */
const PING_BYTES = 8;

const clientMessage = z.object({ type: z.string(), payload: z.unknown().optional() });

/** What all sockets share; one object, because there may be many thousand sockets. */
export interface SocketTerms {
  authDeadlineMs: number;
  heartbeatMs: number;
  /** Control frames count too; 0: no limit. */
  messagesPerSecond: number;
  /** Returns the key that signed the challenge, or throws a Refusal. */
  checkEvent: (encoded: string) => string;
  subscribers: Pick<QuoteSubscribers, 'add' | 'remove'>;
  onEnd: (socket: QuoteSocket) => void;
  monotonicMs: () => number;
  log: Log;
}

/** One client's connection, from the challenge to its end. */
export class QuoteSocket implements QuoteSubscriber {
  readonly #connection: WebSocket;
  readonly #terms: SocketTerms;
  readonly #authDeadline: NodeJS.Timeout;
  readonly #heartbeat: NodeJS.Timeout;
  #pubkey: string | null = null;
  /** When the next message is due at the permitted rate: a token bucket in one number. */
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
    this.#heartbeat = setInterval(() => this.#dropUnlessAlive(), terms.heartbeatMs);
    connection.on('message', (data) => this.#receive(String(data)));
    // The WebSocket answers a ping by itself; a client that does not read those answers is dropped, too.
    connection.on('ping', () => this.#isWithinRate() && this.#isBeingRead());
    connection.on('pong', (data) => this.#receivePong(data));
    // `once` would keep a wrapper for each socket.
    connection.on('close', () => {
      this.#leave();
      terms.onEnd(this);
    });
    this.#send('challenge', challenge);
  }

  update(quoteId: string): boolean {
    return this.#send('update', { quoteId });
  }

  refuse(message: string, code: number): void {
    this.#send('error', message);
    this.#close(code);
  }

  /**
   * Closes without an `error` message: after one, wallets reconnect at once, and devices would push each other out.
   * Some reconnect after any close, so a key may have more sockets than a person has devices.
   */
  makeRoom(): void {
    this.#close(POLICY_VIOLATION, 'Too many connections of this key.');
  }

  /** Only the answer to our own ping counts: a client that does not read can send anything else. */
  #dropUnlessAlive(): void {
    if (this.#unansweredPing !== null) {
      // A phone that slept reads it when it wakes; wallets reconnect after an error message only.
      this.refuse('The connection was silent. Please reconnect.', POLICY_VIOLATION);
    } else if (this.#isBeingRead()) {
      this.#unansweredPing = randomBytes(PING_BYTES);
      this.#connection.ping(this.#unansweredPing);
    }
  }

  #receive(text: string): void {
    if (!this.#isWithinRate()) {
      return;
    }
    const message = parseMessage(text);
    // Older clients send other messages too; those need no answer.
    if (message?.type === 'ping') {
      this.#send('pong');
    } else if (message?.type === 'challenge-response' && this.#pubkey === null) {
      this.#authenticate(message.payload);
    }
  }

  #receivePong(data: Buffer): void {
    if (this.#isWithinRate() && this.#unansweredPing?.equals(data) === true) {
      this.#unansweredPing = null;
    }
  }

  #authenticate(payload: unknown): void {
    const encoded = typeof payload === 'string' ? /^Nostr\s+(\S+)\s*$/i.exec(payload)?.[1] : null;
    const { checkEvent, subscribers, log } = this.#terms;
    try {
      this.#pubkey = checkEvent(encoded ?? '');
      clearTimeout(this.#authDeadline);
      subscribers.add(this.#pubkey, this);
      this.#send('challenge-success');
    } catch (error) {
      // Outside of any request, an uncaught error would end the process.
      const { message, errorId } = renderError(error, 'api');
      if (errorId !== null) {
        log.error({ err: error, errorId }, 'a quote socket failed');
      }
      this.refuse(message, POLICY_VIOLATION);
    }
  }

  /**
   * Counts a message. Beyond the limit nothing more is read, not even the close frame: one chunk of a flood has ten
   * thousand messages. Messages that arrive while the socket closes count, and are ignored.
   *
   * @returns whether the message is to be handled
   */
  #isWithinRate(): boolean {
    const { messagesPerSecond, monotonicMs } = this.#terms;
    if (messagesPerSecond > 0) {
      const intervalMs = 1_000 / messagesPerSecond;
      const nowMs = monotonicMs();
      const dueMs = Math.max(this.#messageDueMs, nowMs);
      // Half an interval of tolerance, or rounding would decide about the last message of a burst.
      if (dueMs - nowMs > MESSAGE_BURST_SECONDS * 1_000 - intervalMs / 2) {
        this.#refuseFlood();
        return false;
      }
      this.#messageDueMs = dueMs + intervalMs;
    }
    return this.#connection.readyState === WebSocket.OPEN;
  }

  #refuseFlood(): void {
    if (!this.#connection.isPaused) {
      this.refuse('Too many messages.', POLICY_VIOLATION);
      this.#connection.pause();
    }
  }

  #send(type: string, payload?: unknown): boolean {
    if (this.#connection.readyState !== WebSocket.OPEN || !this.#isBeingRead()) {
      return false;
    }
    this.#connection.send(JSON.stringify({ type, payload }));
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
    clearTimeout(this.#authDeadline);
    clearInterval(this.#heartbeat);
    if (this.#pubkey !== null) {
      this.#terms.subscribers.remove(this.#pubkey, this);
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
