import { randomBytes } from 'node:crypto';
import { WebSocket } from 'ws';
import { z } from 'zod';
import type { Logger } from '../../log.ts';
import type { QuoteSubscriber, QuoteSubscribers } from '../../quotes/quote-updates.ts';
import { tryParseJson } from '../../untrusted-text.ts';
import { renderError } from '../errors.ts';

/** RFC 6455 close code. */
const POLICY_VIOLATION = 1008;

/** The size of the token bucket. A wallet that wakes up sends several messages together. */
const MESSAGE_BURST_SECONDS = 2;

/** About 400 updates. A client with a larger backlog does not read. */
const MAX_SEND_BUFFER_BYTES = 32 * 1024;

const clientMessageSchema = z.object({ type: z.string(), payload: z.unknown().optional() });

/** Shared by all sockets. */
export interface QuoteSocketOptions {
  authTimeoutMs: number;
  heartbeatIntervalMs: number;
  /** Includes control frames; 0: no limit. */
  messagesPerSecond: number;
  /** Returns the key that signed the challenge. @throws RequestError */
  verifyChallengeResponse: (encoded: string) => string;
  subscribers: Pick<QuoteSubscribers, 'add' | 'remove'>;
  onClosed: (socket: QuoteSocket) => void;
  monotonicMs: () => number;
  log: Logger;
}

/** One client's connection: challenge, authentication, updates. */
export class QuoteSocket implements QuoteSubscriber {
  readonly #connection: WebSocket;
  readonly #options: QuoteSocketOptions;
  readonly #authTimer: NodeJS.Timeout;
  readonly #heartbeatTimer: NodeJS.Timeout;
  #pubkey: string | null = null;
  /** A token bucket (GCRA): when the next message is due at the permitted rate. */
  #nextMessageDueMs = 0;
  #pendingPing: Buffer | null = null;

  constructor(
    connection: WebSocket,
    challenge: { url: string; method: string },
    options: QuoteSocketOptions,
  ) {
    this.#connection = connection;
    this.#options = options;
    this.#authTimer = setTimeout(
      () => this.closeWithError('Authentication timed out.', POLICY_VIOLATION),
      options.authTimeoutMs,
    );
    this.#heartbeatTimer = setInterval(() => this.#checkHeartbeat(), options.heartbeatIntervalMs);
    connection.on('message', (data) => this.#handleMessage(String(data)));
    // The library sends the pongs, which fill the send buffer if the client does not read.
    connection.on('ping', () => this.#admitMessage() && this.#enforceSendBuffer());
    connection.on('pong', (data) => this.#handlePong(data));
    connection.once('close', () => {
      this.#cleanUp();
      options.onClosed(this);
    });
    this.#send('challenge', challenge);
  }

  sendUpdate(quoteId: string): boolean {
    return this.#send('update', { quoteId });
  }

  closeWithError(message: string, code: number): void {
    this.#send('error', message);
    this.#close(code);
  }

  /** Closes without an `error` message, which would make wallets reconnect immediately and evict each other. */
  evict(): void {
    this.#close(POLICY_VIOLATION, 'Too many connections of this key.');
  }

  /** Only a pong with the ping's payload, which clients cannot guess, proves that the client reads. */
  #checkHeartbeat(): void {
    if (this.#pendingPing !== null) {
      // With an error message, because wallets reconnect only after one, for example when a phone wakes up.
      this.closeWithError('The connection was silent. Please reconnect.', POLICY_VIOLATION);
    } else if (this.#enforceSendBuffer()) {
      this.#pendingPing = randomBytes(8);
      this.#connection.ping(this.#pendingPing);
    }
  }

  #handleMessage(text: string): void {
    if (!this.#admitMessage()) {
      return;
    }
    const message = clientMessageSchema.safeParse(tryParseJson(text)).data;
    // Ignores other messages, which older clients send.
    if (message?.type === 'ping') {
      this.#send('pong');
    } else if (message?.type === 'challenge-response' && this.#pubkey === null) {
      this.#authenticate(message.payload);
    }
  }

  #handlePong(data: Buffer): void {
    if (this.#admitMessage() && this.#pendingPing?.equals(data) === true) {
      this.#pendingPing = null;
    }
  }

  #authenticate(payload: unknown): void {
    const encoded = typeof payload === 'string' ? /^Nostr\s+(\S+)\s*$/i.exec(payload)?.[1] : null;
    const { verifyChallengeResponse, subscribers, log } = this.#options;
    try {
      this.#pubkey = verifyChallengeResponse(encoded ?? '');
      clearTimeout(this.#authTimer);
      subscribers.add(this.#pubkey, this);
      this.#send('challenge-success');
    } catch (error) {
      const { message, errorId } = renderError(error, 'api');
      if (errorId !== null) {
        log.error({ event: 'quote_socket_failed', err: error, errorId }, 'quote socket failed');
      }
      this.closeWithError(message, POLICY_VIOLATION);
    }
  }

  /** Counts a message. Returns whether to handle it: the socket is open and the rate limit is not exceeded. */
  #admitMessage(): boolean {
    const { messagesPerSecond, monotonicMs } = this.#options;
    if (messagesPerSecond > 0) {
      const intervalMs = 1_000 / messagesPerSecond;
      const nowMs = monotonicMs();
      const dueMs = Math.max(this.#nextMessageDueMs, nowMs);
      // Half an interval of tolerance, so that rounding does not decide about the last message of a burst.
      if (dueMs - nowMs > MESSAGE_BURST_SECONDS * 1_000 - intervalMs / 2) {
        // Also stops reading, because a single chunk may contain ten thousand messages.
        if (!this.#connection.isPaused) {
          this.closeWithError('Too many messages.', POLICY_VIOLATION);
          this.#connection.pause();
        }
        return false;
      }
      this.#nextMessageDueMs = dueMs + intervalMs;
    }
    return this.#connection.readyState === WebSocket.OPEN;
  }

  #send(type: string, payload?: unknown): boolean {
    if (this.#connection.readyState !== WebSocket.OPEN || !this.#enforceSendBuffer()) {
      return false;
    }
    this.#connection.send(JSON.stringify({ type, payload }));
    return true;
  }

  /** Terminates the connection of a client that does not read. Returns whether the client reads. */
  #enforceSendBuffer(): boolean {
    if (this.#connection.bufferedAmount <= MAX_SEND_BUFFER_BYTES) {
      return true;
    }
    this.#connection.terminate();
    return false;
  }

  #close(code: number, reason?: string): void {
    this.#cleanUp();
    this.#connection.close(code, reason);
  }

  #cleanUp(): void {
    clearTimeout(this.#authTimer);
    clearInterval(this.#heartbeatTimer);
    if (this.#pubkey !== null) {
      this.#options.subscribers.remove(this.#pubkey, this);
    }
  }
}
