import { randomBytes } from 'node:crypto';
import { WebSocket } from 'ws';
import { z } from 'zod';
import type { QuoteSubscriber } from '../../quotes/update-sender.ts';
import { tryParseJson } from '../../untrusted-text.ts';
import type { HttpContext } from '../context.ts';
import { renderError } from '../errors.ts';
import {
  MAX_SOCKET_MESSAGE_ELEMENTS,
  MAX_SOCKET_SEND_BUFFER_BYTES,
  SOCKET_RATE_WINDOW_SECONDS,
} from '../limits.ts';

/** RFC 6455 close code. */
const POLICY_VIOLATION = 1008;

const clientMessageSchema = z.object({ type: z.string(), payload: z.unknown().optional() });

export interface QuoteSocketOptions {
  context: HttpContext;
  authTimeoutMs: number;
  heartbeatIntervalMs: number;
  /** Returns the key that signed the challenge. @throws RequestError */
  verifyChallengeResponse: (encoded: string) => string;
  onClosed: (socket: QuoteSocket) => void;
}

export class QuoteSocket implements QuoteSubscriber {
  readonly #webSocket: WebSocket;
  readonly #options: QuoteSocketOptions;
  readonly #authTimer: NodeJS.Timeout;
  readonly #heartbeatTimer: NodeJS.Timeout;
  #pubkey: string | null = null;
  #rateWindowStartMs = 0;
  #messagesInRateWindow = 0;
  /** The payload of the latest ping; null if the client has responded to it. */
  #pendingPing: Buffer | null = null;

  constructor(webSocket: WebSocket, challengeUrl: string, options: QuoteSocketOptions) {
    this.#webSocket = webSocket;
    this.#options = options;
    this.#authTimer = setTimeout(
      () => this.closeWithError('Authentication timed out.', POLICY_VIOLATION),
      options.authTimeoutMs,
    );
    this.#heartbeatTimer = setInterval(() => this.#checkHeartbeat(), options.heartbeatIntervalMs);
    webSocket.on('message', (data) => this.#handleMessage(String(data)));
    webSocket.on('ping', () => {
      // The library has responded with a pong. If the client does not read, pongs fill the send buffer.
      if (this.#admitMessage()) {
        this.#enforceSendBuffer();
      }
    });
    webSocket.on('pong', (data) => {
      if (this.#admitMessage() && this.#pendingPing?.equals(data) === true) {
        this.#pendingPing = null;
      }
    });
    webSocket.once('close', () => {
      this.#cleanUp();
      options.onClosed(this);
    });
    this.#send('challenge', { url: challengeUrl, method: 'GET' });
  }

  sendUpdate(quoteId: string): boolean {
    return this.#send('update', { quoteId });
  }

  closeWithError(message: string, code: number): void {
    this.#send('error', message);
    this.#close(code);
  }

  /** Sends no `error` message: after one, wallets reconnect immediately, and would evict each other. */
  evict(): void {
    this.#close(POLICY_VIOLATION, 'Too many connections of this key.');
  }

  /** Sends a ping with a random payload. A pong with this payload proves that the client reads. */
  #checkHeartbeat(): void {
    if (this.#pendingPing !== null) {
      // A phone that was asleep did not respond. Wallets reconnect only after an error message.
      this.closeWithError('The connection was silent. Please reconnect.', POLICY_VIOLATION);
    } else if (this.#enforceSendBuffer()) {
      this.#pendingPing = randomBytes(8);
      this.#webSocket.ping(this.#pendingPing);
    }
  }

  #handleMessage(text: string): void {
    if (!this.#admitMessage()) {
      return;
    }
    const json = tryParseJson(text, MAX_SOCKET_MESSAGE_ELEMENTS);
    const message = clientMessageSchema.safeParse(json).data;
    // Older clients send other messages, which are ignored.
    if (message?.type === 'ping') {
      this.#send('pong');
    } else if (message?.type === 'challenge-response' && this.#pubkey === null) {
      this.#authenticate(message.payload);
    }
  }

  #authenticate(payload: unknown): void {
    const encoded = typeof payload === 'string' ? /^Nostr\s+(\S+)\s*$/i.exec(payload)?.[1] : null;
    const { verifyChallengeResponse, context } = this.#options;
    try {
      this.#pubkey = verifyChallengeResponse(encoded ?? '');
      clearTimeout(this.#authTimer);
      context.subscribers.add(this.#pubkey, this);
      this.#send('challenge-success');
    } catch (error) {
      const { message, errorId } = renderError(error, 'api');
      if (errorId !== null) {
        context.log.error(
          { event: 'quote_socket_failed', err: error, errorId },
          'quote socket failed',
        );
      }
      this.closeWithError(message, POLICY_VIOLATION);
    }
  }

  /** Counts a message or control frame. Returns whether the socket is open and within the rate limit. */
  #admitMessage(): boolean {
    const { limits, monotonicMs } = this.#options.context;
    if (monotonicMs() - this.#rateWindowStartMs >= SOCKET_RATE_WINDOW_SECONDS * 1_000) {
      this.#rateWindowStartMs = monotonicMs();
      this.#messagesInRateWindow = 0;
    }
    this.#messagesInRateWindow += 1;
    const maxMessages = SOCKET_RATE_WINDOW_SECONDS * limits.socketMessagesPerSecond;
    if (maxMessages > 0 && this.#messagesInRateWindow > maxMessages) {
      if (!this.#webSocket.isPaused) {
        this.closeWithError('Too many messages.', POLICY_VIOLATION);
        // One chunk of data may contain ten thousand further messages.
        this.#webSocket.pause();
      }
      return false;
    }
    return this.#webSocket.readyState === WebSocket.OPEN;
  }

  #send(type: string, payload?: unknown): boolean {
    if (this.#webSocket.readyState !== WebSocket.OPEN || !this.#enforceSendBuffer()) {
      return false;
    }
    this.#webSocket.send(JSON.stringify({ type, payload }));
    return true;
  }

  /** Terminates the connection of a client that does not read. Returns whether the client reads. */
  #enforceSendBuffer(): boolean {
    if (this.#webSocket.bufferedAmount <= MAX_SOCKET_SEND_BUFFER_BYTES) {
      return true;
    }
    this.#webSocket.terminate();
    return false;
  }

  #close(code: number, reason?: string): void {
    this.#cleanUp();
    this.#webSocket.close(code, reason);
  }

  #cleanUp(): void {
    clearTimeout(this.#authTimer);
    clearInterval(this.#heartbeatTimer);
    if (this.#pubkey !== null) {
      this.#options.context.subscribers.remove(this.#pubkey, this);
    }
  }
}
