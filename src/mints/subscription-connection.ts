import type { RawData, WebSocket } from 'ws';
import { z } from 'zod';
import { byteLength, lookAfter } from '../net/guarded-socket.ts';
import type { ObservedState, QuoteObservation } from './quote-answer.ts';
import { parseJson } from '../untrusted-text.ts';
import { parseObservation } from './quote-answer.ts';

/** cdk accepts this many subscriptions on a connection. */
const MAX_SUBSCRIPTIONS = 100;

/** Nutshell accepts this many quotes on a connection in its lifetime: unsubscribing frees none. */
const MAX_QUOTES = 1000;

/**
 * Frames that a mint may send between two of our pings, pings and pongs included: a base, and for each
 * quote several times what an honest mint reports in that time.
 */
const MAX_FRAMES = 50;
const MAX_FRAMES_PER_QUOTE = 10;

/** A longer message counts as several frames of this length. */
const FRAME_BYTES = 4096;

/** How a mint rejects a message because there were too many (measured on Nutshell). */
const RATE_LIMITED_MESSAGE = /rate limit/i;

/** How a mint refuses a handshake for the same reason: 429, or 500 for Nutshell (measured). */
const RATE_LIMITED_STATUSES: ReadonlySet<number> = new Set([429, 500]);

export interface ConnectionTiming {
  pingIntervalMs: number;
  /** A mint that has not answered a subscription by then does not read our messages. */
  answerTimeoutMs: number;
}

export type OpenOutcome = 'open' | 'rate_limited' | 'failed';

/** How the mint answered a subscription. `closed`: the connection ended before. */
export type SubscribeOutcome = 'confirmed' | 'rejected' | 'rate_limited' | 'unanswered' | 'closed';

export interface ConnectionParts {
  socket: WebSocket;
  timing: ConnectionTiming;
  /** `isChange`: another state was reported before. The mint sends the first one of each quote unprompted. */
  onObservation: (observation: QuoteObservation, isChange: boolean) => void;
  /** Called when the mint reports on a quote that was not subscribed here. */
  onUnknownQuote: () => void;
}

/** One WebSocket to a mint, and the quotes subscribed on it (NUT-17). */
export class SubscriptionConnection {
  readonly opened: Promise<OpenOutcome>;
  readonly closed: Promise<void>;
  readonly #parts: ConnectionParts;
  readonly #socket: WebSocket;
  /** The state that the mint reported last of each subscribed quote, the newest quote last. */
  readonly #quotes = new Map<string, ObservedState | null>();
  /** Subscriptions that wait for their answers, by the id of the request, the oldest first. */
  readonly #unanswered = new Map<number, (outcome: SubscribeOutcome) => void>();
  #subscriptions = 0;
  /** The handshake counts as the first one. */
  #framesSincePing = 1;
  #hasFlooded = false;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.#socket = parts.socket;
    const opened = Promise.withResolvers<OpenOutcome>();
    const closed = Promise.withResolvers<void>();
    this.opened = opened.promise;
    this.closed = closed.promise;
    const pingTimer = setInterval(() => this.#ping(), parts.timing.pingIntervalMs).unref();
    this.#socket.once('open', () => opened.resolve('open'));
    this.#socket.on('unexpected-response', (_request, response) => {
      const isLimited = RATE_LIMITED_STATUSES.has(response.statusCode ?? 0);
      opened.resolve(isLimited ? 'rate_limited' : 'failed');
      response.resume();
      this.#socket.terminate();
    });
    // A close event always follows.
    this.#socket.on('error', () => {});
    this.#socket.once('close', () => {
      clearInterval(pingTimer);
      for (const answer of this.#unanswered.values()) {
        answer('closed');
      }
      opened.resolve('failed');
      closed.resolve();
    });
    this.#socket.on('message', (data, isBinary) => {
      this.#countFrame(byteLength(data));
      if (this.isOpen && !isBinary) {
        this.#receive(data);
      }
    });
    this.#socket.on('ping', () => this.#countFrame(0));
    this.#socket.on('pong', () => this.#countFrame(0));
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  /** Whether the connection was closed because the mint sent far too much. */
  get hasFlooded(): boolean {
    return this.#hasFlooded;
  }

  /** How many more quotes this connection can take. */
  get room(): number {
    return this.#subscriptions < MAX_SUBSCRIPTIONS ? MAX_QUOTES - this.#quotes.size : 0;
  }

  /** How many subscriptions were sent. */
  get messages(): number {
    return this.#subscriptions;
  }

  /** The subscribed quotes, the newest last. */
  quoteIds(): string[] {
    return [...this.#quotes.keys()];
  }

  /**
   * Whether the mint reports the quote here. It does once it has sent the first state: it answers OK for
   * unknown quotes too, and cdk drops first states that overflow its queue.
   */
  covers(quoteId: string): boolean {
    return this.isOpen && this.#quotes.get(quoteId) != null;
  }

  /** Subscribes to quotes, at most {@link room}, with one message. Resolves with the mint's answer. */
  subscribe(quoteIds: readonly string[]): Promise<SubscribeOutcome> {
    const { promise, resolve } = Promise.withResolvers<SubscribeOutcome>();
    this.#subscriptions += 1;
    const id = this.#subscriptions;
    const answer = (outcome: SubscribeOutcome) => {
      this.#unanswered.delete(id);
      resolve(outcome);
    };
    for (const quoteId of quoteIds) {
      this.#quotes.set(quoteId, null);
    }
    this.#unanswered.set(id, answer);
    const params = { kind: 'bolt11_mint_quote', subId: `quotes-${id}`, filters: quoteIds };
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'subscribe', params }));
    lookAfter(this.#parts.timing.answerTimeoutMs, () => answer('unanswered'));
    return promise;
  }

  close(): void {
    this.#socket.close();
  }

  /** Ends the connection if not even a pong has come since the last ping. */
  #ping(): void {
    if (this.#framesSincePing === 0) {
      this.#socket.terminate();
    } else if (this.isOpen) {
      this.#framesSincePing = 0;
      this.#socket.ping();
    }
  }

  /** Ends the connection if the mint sends too much, without a closing handshake: the flood would go on. */
  #countFrame(bytes: number): void {
    this.#framesSincePing += Math.max(1, Math.ceil(bytes / FRAME_BYTES));
    if (this.#framesSincePing > MAX_FRAMES + MAX_FRAMES_PER_QUOTE * this.#quotes.size) {
      this.#hasFlooded = true;
      this.#socket.terminate();
    }
  }

  /** Reads answers and notifications; ignores anything else. */
  #receive(data: RawData): void {
    const { data: message } = MESSAGE.safeParse(parseJson(data.toString()));
    if (message === undefined) {
      return;
    }
    if ('params' in message) {
      this.#receiveReport(parseObservation(message.params.payload));
    } else if (RATE_LIMITED_MESSAGE.test(message.error?.message ?? '')) {
      // Nutshell answers in order and names no message, so the oldest one was rejected.
      const [oldest] = this.#unanswered.values();
      oldest?.('rate_limited');
    } else {
      const isConfirmed = message.result?.status === 'OK';
      this.#unanswered.get(message.id)?.(isConfirmed ? 'confirmed' : 'rejected');
    }
  }

  #receiveReport(observation: QuoteObservation | null): void {
    if (observation === null) {
      return;
    }
    const { quoteId, state } = observation;
    const reported = this.#quotes.get(quoteId);
    if (reported === undefined) {
      this.#parts.onUnknownQuote();
    } else if (reported !== state) {
      this.#quotes.set(quoteId, state);
      this.#parts.onObservation(observation, reported !== null);
    }
  }
}

const NOTIFICATION = z.object({
  method: z.literal('subscribe'),
  params: z.object({ payload: z.unknown() }),
});
/** Without a `result` that says OK it is a rejection. */
const ANSWER = z.object({
  /** No request has the id 0, which stands for a missing one. */
  id: z.number().catch(0),
  result: z.object({ status: z.string() }).optional().catch(undefined),
  error: z.object({ message: z.string() }).optional().catch(undefined),
});
const MESSAGE = z.union([NOTIFICATION, ANSWER]);
