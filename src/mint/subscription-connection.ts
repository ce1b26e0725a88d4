import type { RawData, WebSocket } from 'ws';
import { z } from 'zod';
import { parseJson } from '../domain/foreign-text.ts';
import type { ObservedState, QuoteObservation } from '../domain/quote.ts';
import { byteLength, lookAfter } from '../net/socket-message.ts';
import type { MintAnomaly } from './mint-anomalies.ts';
import { parseObservation } from './quote-answer.ts';

/** cdk accepts this many subscriptions on a connection. */
const MAX_SUBSCRIPTIONS = 100;

/** Nutshell accepts this many quotes on a connection in its lifetime: unsubscribing frees none. */
const MAX_QUOTES = 1000;

/**
 * Messages that a connection may bring in its lifetime: ten for each subscription, and for each quote many
 * times what there is to report. Honest mints come nowhere near.
 */
const MAX_MESSAGES = 1000;
const MAX_MESSAGES_PER_QUOTE = 64;

/** A longer message counts as several of this length. */
const MESSAGE_BYTES = 4096;

/** Pings and pongs between two of our pings. */
const MAX_CONTROL_FRAMES = 100;

/** An honest mint reports a handful of states of a quote. Beyond this, polling has to do. */
const MAX_REPORTS_PER_QUOTE = 32;

/** How a mint rejects a message because there were too many (measured on Nutshell). */
const RATE_LIMITED = /rate limit/i;

/** Durations of a connection, in milliseconds. */
export interface ConnectionTiming {
  pingIntervalMs: number;
  /** A mint that has not answered a subscription by then does not read our messages. */
  answerTimeoutMs: number;
  /** A younger subscription is not expected to bring all news yet. */
  settledAfterMs: number;
}

/** How the mint answered a subscription. `closed`: the connection ended before. */
export type SubscribeOutcome = 'confirmed' | 'rejected' | 'rate_limited' | 'unanswered' | 'closed';

/** How a connection could not be opened: with the HTTP status if the mint refused it. */
export type OpenOutcome = { isOpen: true } | { isOpen: false; refusedStatus: number | null };

export interface ConnectionParts {
  socket: WebSocket;
  timing: ConnectionTiming;
  monotonicMs: () => number;
  /** `isNews`: the quote had another state before. The mint sends the first one of each by itself. */
  onObservation: (observation: QuoteObservation, isNews: boolean) => void;
  /** Called when the mint sends far too much. The connection is closed then. */
  onFlood: () => void;
  onAnomaly: (anomaly: MintAnomaly, times: number) => void;
}

/** The quotes of one subscribe message. */
interface Message {
  quoteIds: readonly string[];
  confirmedAtMs: number | null;
  /** Whether the mint reported any of them. */
  hasReported: boolean;
  answered: (outcome: SubscribeOutcome) => void;
}

interface SubscribedQuote {
  message: Message;
  reportedState: ObservedState | null;
  reports: number;
}

/** One WebSocket to a mint, and the quotes subscribed on it (NUT-17). */
export class SubscriptionConnection {
  /** Resolves when the connection is open, or cannot be opened. */
  readonly opened: Promise<OpenOutcome>;
  /** Resolves when the connection has ended. */
  readonly closed: Promise<void>;
  readonly #parts: ConnectionParts;
  readonly #socket: WebSocket;
  readonly #quotes = new Map<string, SubscribedQuote>();
  /** By the id of the request, in the order of sending. */
  readonly #unanswered = new Map<number, Message>();
  #subscriptions = 0;
  #messages = 0;
  #controlFrames = 0;
  #isPeerAlive = true;
  #ignoredReports = 0;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.#socket = parts.socket;
    const opened = Promise.withResolvers<OpenOutcome>();
    const closed = Promise.withResolvers<void>();
    this.opened = opened.promise;
    this.closed = closed.promise;
    const pingTimer = setInterval(() => this.#ping(), parts.timing.pingIntervalMs).unref();
    let refusedStatus: number | null = null;
    this.#socket.on('unexpected-response', (_request, response) => {
      refusedStatus = response.statusCode ?? null;
      response.resume();
      this.#socket.terminate();
    });
    // The close event that follows says everything that matters.
    this.#socket.on('error', () => {});
    this.#socket.once('close', () => {
      clearInterval(pingTimer);
      this.#reportIgnored();
      for (const message of this.#unanswered.values()) {
        message.answered('closed');
      }
      opened.resolve({ isOpen: false, refusedStatus });
      closed.resolve();
    });
    this.#socket.once('open', () => opened.resolve({ isOpen: true }));
    this.#socket.on('message', (data, isBinary) => {
      this.#isPeerAlive = true;
      if (this.isOpen && this.#isBearable(byteLength(data)) && !isBinary) {
        this.#receive(data);
      }
    });
    this.#socket.on('ping', () => this.#receiveControlFrame());
    this.#socket.on('pong', () => {
      this.#isPeerAlive = true;
      this.#receiveControlFrame();
    });
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  /** How many more quotes this connection can take. */
  get room(): number {
    return this.#subscriptions < MAX_SUBSCRIPTIONS ? MAX_QUOTES - this.#quotes.size : 0;
  }

  /** The subscribed quotes, the newest last. */
  quoteIds(): string[] {
    return [...this.#quotes.keys()];
  }

  /** Whether the mint confirmed to report the quote here. */
  covers(quoteId: string): boolean {
    const quote = this.#quotes.get(quoteId);
    return (
      quote !== undefined &&
      quote.message.confirmedAtMs !== null &&
      quote.reports < MAX_REPORTS_PER_QUOTE &&
      this.isOpen
    );
  }

  /** Subscribes to quotes, at most {@link room}, with one message. Resolves with the mint's answer. */
  subscribe(quoteIds: readonly string[]): Promise<SubscribeOutcome> {
    const { promise, resolve } = Promise.withResolvers<SubscribeOutcome>();
    this.#subscriptions += 1;
    const id = this.#subscriptions;
    const message: Message = {
      quoteIds,
      confirmedAtMs: null,
      hasReported: false,
      answered: (outcome) => {
        this.#unanswered.delete(id);
        if (outcome === 'rate_limited') {
          this.#forget(quoteIds);
        }
        resolve(outcome);
      },
    };
    for (const quoteId of quoteIds) {
      this.#quotes.set(quoteId, { message, reportedState: null, reports: 0 });
    }
    this.#unanswered.set(id, message);
    const params = { kind: 'bolt11_mint_quote', subId: `quotes-${id}`, filters: quoteIds };
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'subscribe', params }));
    lookAfter(this.#parts.timing.answerTimeoutMs, () => message.answered('unanswered'));
    return promise;
  }

  /**
   * Whether the mint should have reported this state, or a later one, and has not. cdk drops messages that
   * overflow its queue, so a quote without any report counts only if its whole message has none.
   */
  lacks(quoteId: string, state: ObservedState): boolean {
    const quote = this.#quotes.get(quoteId);
    if (quote === undefined || !this.covers(quoteId)) {
      return false;
    }
    const { confirmedAtMs, hasReported } = quote.message;
    const isSettled =
      this.#parts.monotonicMs() - (confirmedAtMs ?? 0) >= this.#parts.timing.settledAfterMs;
    const isFirstLost = quote.reportedState === null && hasReported;
    const reached = quote.reportedState === null ? 0 : PROGRESS[quote.reportedState];
    return isSettled && !isFirstLost && PROGRESS[state] > reached;
  }

  /** Closes the connection. It brings no more news. */
  close(): void {
    this.#socket.close();
  }

  #forget(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#quotes.delete(quoteId);
    }
  }

  #ping(): void {
    this.#reportIgnored();
    if (!this.isOpen) {
      return;
    }
    if (!this.#isPeerAlive) {
      this.#socket.terminate();
      return;
    }
    this.#isPeerAlive = false;
    this.#controlFrames = 0;
    this.#socket.ping();
  }

  /** Counts a message; false if it is one too many. */
  #isBearable(bytes: number): boolean {
    this.#messages += Math.max(1, Math.ceil(bytes / MESSAGE_BYTES));
    const isBearable = this.#messages <= MAX_MESSAGES + MAX_MESSAGES_PER_QUOTE * this.#quotes.size;
    if (!isBearable) {
      this.#endFlood();
    }
    return isBearable;
  }

  #receiveControlFrame(): void {
    this.#controlFrames += 1;
    if (this.isOpen && this.#controlFrames > MAX_CONTROL_FRAMES) {
      this.#endFlood();
    }
  }

  #endFlood(): void {
    this.#parts.onAnomaly('socket_flooding', 1);
    this.#parts.onFlood();
    this.#socket.terminate();
  }

  /** Reads answers and notifications; anything else is ignored. */
  #receive(data: RawData): void {
    const { data: message } = MESSAGE.safeParse(parseJson(data.toString()));
    if (message === undefined) {
      return;
    }
    if ('params' in message) {
      this.#receiveReport(parseObservation(message.params.payload));
    } else if (RATE_LIMITED.test(message.error?.message ?? '')) {
      // Nutshell answers in order and names no message, so the oldest one was rejected.
      const [oldest] = this.#unanswered.values();
      oldest?.answered('rate_limited');
    } else {
      const isConfirmed = message.result?.status === 'OK';
      const subscription = this.#unanswered.get(message.id);
      if (subscription !== undefined && isConfirmed) {
        subscription.confirmedAtMs = this.#parts.monotonicMs();
      }
      subscription?.answered(isConfirmed ? 'confirmed' : 'rejected');
    }
  }

  /** Passes a report on if the state is not the one reported last. */
  #receiveReport(observation: QuoteObservation | null): void {
    if (observation === null) {
      return;
    }
    const quote = this.#quotes.get(observation.quoteId);
    if (quote === undefined) {
      this.#ignoredReports += 1;
      return;
    }
    if (quote.reportedState === observation.state) {
      return;
    }
    if (quote.reports >= MAX_REPORTS_PER_QUOTE) {
      this.#parts.onAnomaly('socket_flooding', 1);
      return;
    }
    const isNews = quote.reportedState !== null;
    quote.reports += 1;
    quote.reportedState = observation.state;
    quote.message.hasReported = true;
    this.#parts.onObservation(observation, isNews);
  }

  #reportIgnored(): void {
    if (this.#ignoredReports > 0) {
      this.#parts.onAnomaly('unasked', this.#ignoredReports);
      this.#ignoredReports = 0;
    }
  }
}

/** How far a payment has come. A mint need not report INFLIGHT, and may fall back to PAID after it. */
const PROGRESS: Readonly<Record<ObservedState, number>> = {
  UNPAID: 0,
  INFLIGHT: 1,
  PAID: 1,
  ISSUED: 2,
};

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
