import type { Logger } from 'pino';
import type { Clock } from '../domain/clock.ts';
import type { QuoteObservation } from '../domain/quote.ts';
import type { SocketConnector } from '../net/guarded-socket.ts';
import { MessageBudget } from './message-budget.ts';
import { SubscriptionConnection } from './subscription-connection.ts';

/**
 * The ids that a connection is given while it has room for 1000: the rest of the room is for quotes
 * that are yet to come. They are the ones about to be paid, and a full connection takes no more.
 */
const MAX_WANTED = 750;

/** Ids held in the hope of room; the oldest are let go beyond it. Polling has them all anyway. */
const MAX_WATCHED = 10_000;

/** With {@link DEFAULT_TIMING}, at most 18 messages in any minute; Nutshell allows 20. */
const MESSAGE_BURST = 6;

/** Observations are handed over in lots of at most this many: one transaction each. */
const MAX_OBSERVATIONS = 500;

/** How a mint says that its minute is used up: as it should, and Nutshell's handshake (measured). */
const RATE_LIMITED_STATUSES: ReadonlySet<number> = new Set([429, 500]);

export interface SubscriptionTiming {
  /** Ids that come within this time go in one message. */
  batchMs: number;
  /** In which one more message, or opening, is earned. */
  messageRefillMs: number;
  /** Delay before the first new attempt; it doubles with each that fails. */
  firstReconnectMs: number;
  longestReconnectMs: number;
  /** After a handshake refused for too many requests: Nutshell's elastic minute, and some. */
  rateLimitRestMs: number;
  /** A connection that lasted this long was a good one: delays start from the first again. */
  stableAfterMs: number;
  /** Between pings; a TCP peer that vanished is found out within two. */
  pingIntervalMs: number;
  /** A used-up connection lasts at least this long: each new one makes the mint tell every state. */
  shortestLifeMs: number;
}

const DEFAULT_TIMING: SubscriptionTiming = {
  batchMs: 5,
  messageRefillMs: 5_000,
  firstReconnectMs: 1_000,
  longestReconnectMs: 60_000,
  rateLimitRestMs: 65_000,
  stableAfterMs: 30_000,
  pingIntervalMs: 30_000,
  shortestLifeMs: 30_000,
};

export interface MintSubscriptionOptions {
  /** Normalised. */
  mintUrl: string;
  connect: SocketConnector;
  /** Called with news of watched quotes, as they came: a late and stale state may be among them. */
  onObservations: (observations: QuoteObservation[]) => void;
  clock: Clock;
  logger?: Pick<Logger, 'debug'>;
  /** For tests. */
  timing?: Partial<SubscriptionTiming>;
}

/**
 * News of bolt11 quotes from one mint over one socket (NUT-17), opened when there is something to
 * watch. It gives speed and no certainty: what it does not cover, and all else too, is polled.
 */
export class MintSubscription {
  readonly #options: MintSubscriptionOptions;
  readonly #timing: SubscriptionTiming;
  readonly #budget: MessageBudget;
  /** Watched ids, the oldest first. */
  readonly #watched = new Set<string>();
  #connection: SubscriptionConnection | null = null;
  #isOpen = false;
  /** Milliseconds since 1970, as the other times here. */
  #openedAt = 0;
  /** Connections in a row that did not last. */
  #failures = 0;
  /** No new connection before. */
  #restsUntil = 0;
  /** The one timer: when to see again what there is to do. */
  #timer: NodeJS.Timeout | undefined;
  #timerDueAt = Number.POSITIVE_INFINITY;
  #arrived: QuoteObservation[] = [];
  #isClosed = false;
  /** The end of each connection that has not ended yet, given up or not. */
  readonly #endings = new Set<Promise<void>>();

  constructor(options: MintSubscriptionOptions) {
    this.#options = options;
    this.#timing = { ...DEFAULT_TIMING, ...options.timing };
    this.#budget = new MessageBudget({
      burst: MESSAGE_BURST,
      refillMs: this.#timing.messageRefillMs,
    });
  }

  /**
   * Asks for news of these quotes. Ids already watched stay as they are; of new ones the later is
   * the newer, here and within a call, and the newer come first where there is not room for all.
   */
  watch(quoteIds: Iterable<string>): void {
    for (const quoteId of quoteIds) {
      this.#watched.add(quoteId);
    }
    for (const oldest of this.#watched) {
      if (this.#watched.size <= MAX_WATCHED) {
        break;
      }
      this.#watched.delete(oldest);
    }
    this.#stepWithin(this.#timing.batchMs);
  }

  /** Forgets quotes. The mint is not told: it would cost a message and free nothing. */
  unwatch(quoteIds: Iterable<string>): void {
    for (const quoteId of quoteIds) {
      this.#watched.delete(quoteId);
    }
    this.#stepWithin(this.#timing.batchMs);
  }

  /** Whether news of the quote comes by itself: the mint confirmed it on the socket open now. */
  covers(quoteId: string): boolean {
    return this.#watched.has(quoteId) && this.#connection?.covers(quoteId) === true;
  }

  /** Ends the socket for good; resolves when it has ended. No callback comes after the call. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#watched.clear();
    this.#connection?.close();
    await Promise.all(this.#endings);
  }

  /** Does the next thing that is to be done and may be done now: open, subscribe, or start anew. */
  #step(): void {
    if (this.#isClosed || this.#watched.size === 0) {
      return;
    }
    const connection = this.#connection;
    if (connection === null) {
      this.#open();
      return;
    }
    const missing = connection.isOpen ? this.#missingOn(connection) : [];
    if (missing.length === 0) {
      return;
    }
    if (connection.room === 0) {
      this.#replace(connection);
      return;
    }
    if (this.#mayGo()) {
      connection.subscribe(missing.slice(-connection.room));
      this.#stepWithin(this.#timing.batchMs);
    }
  }

  #open(): void {
    const restMs = this.#restsUntil - this.#options.clock();
    if (restMs > 0) {
      this.#stepWithin(restMs);
      return;
    }
    if (!this.#mayGo()) {
      return;
    }
    const ending = Promise.withResolvers<void>();
    this.#endings.add(ending.promise);
    const connection: SubscriptionConnection = new SubscriptionConnection({
      socket: this.#options.connect(socketUrl(this.#options.mintUrl)),
      pingIntervalMs: this.#timing.pingIntervalMs,
      events: {
        onOpen: () => this.#opened(connection),
        onClosed: (refusedStatus) => {
          this.#endings.delete(ending.promise);
          ending.resolve();
          this.#ended(connection, refusedStatus);
        },
        onAnswer: (count, isConfirmed) =>
          this.#log('subscription answered', { count, isConfirmed }),
        onObservation: (observation) => this.#take(observation),
      },
    });
    this.#connection = connection;
  }

  #opened(connection: SubscriptionConnection): void {
    if (connection !== this.#connection) {
      return;
    }
    this.#openedAt = this.#options.clock();
    this.#log('mint socket opened');
    this.#setOpen(true);
    this.#step();
  }

  #ended(connection: SubscriptionConnection, refusedStatus: number | null): void {
    if (connection !== this.#connection) {
      return;
    }
    const now = this.#options.clock();
    const lasted = this.#isOpen && now - this.#openedAt >= this.#timing.stableAfterMs;
    this.#failures = lasted ? 0 : this.#failures;
    const restMs = this.#restMs(refusedStatus);
    this.#restsUntil = now + restMs;
    this.#failures += 1;
    this.#connection = null;
    this.#log('mint socket ended', { refusedStatus, restMs });
    this.#setOpen(false);
    this.#step();
  }

  /** A used-up connection makes way for one with only the ids that are still watched. */
  #replace(connection: SubscriptionConnection): void {
    const remainingMs = this.#openedAt + this.#timing.shortestLifeMs - this.#options.clock();
    if (remainingMs > 0) {
      this.#stepWithin(remainingMs);
      return;
    }
    this.#connection = null;
    connection.close();
    this.#log('mint socket used up');
    this.#setOpen(false);
    this.#step();
  }

  /** Half of the delay is chance, so that many sockets do not come back to a mint at one moment. */
  #restMs(refusedStatus: number | null): number {
    const { firstReconnectMs, longestReconnectMs, rateLimitRestMs } = this.#timing;
    if (refusedStatus !== null && RATE_LIMITED_STATUSES.has(refusedStatus)) {
      return rateLimitRestMs;
    }
    const delayMs = Math.min(firstReconnectMs * 2 ** this.#failures, longestReconnectMs);
    return delayMs * (0.5 + Math.random() / 2);
  }

  /** The newest watched ids that the connection was never given, the newest last. */
  #missingOn(connection: SubscriptionConnection): string[] {
    return [...this.#watched]
      .slice(-MAX_WANTED)
      .filter((quoteId) => !connection.hasSubscribed(quoteId));
  }

  /** Takes leave for one message; where there is none yet, comes back when there is. */
  #mayGo(): boolean {
    const waitMs = this.#budget.take(this.#options.clock());
    if (waitMs > 0) {
      this.#stepWithin(waitMs);
    }
    return waitMs === 0;
  }

  #stepWithin(delayMs: number): void {
    const dueAt = this.#options.clock() + delayMs;
    if (this.#isClosed || this.#timerDueAt <= dueAt) {
      return;
    }
    clearTimeout(this.#timer);
    this.#timerDueAt = dueAt;
    this.#timer = setTimeout(() => {
      this.#timerDueAt = Number.POSITIVE_INFINITY;
      this.#step();
    }, delayMs).unref();
  }

  /** What comes in one turn of the event loop is handed over together. */
  #take(observation: QuoteObservation): void {
    if (!this.#watched.has(observation.quoteId)) {
      return;
    }
    this.#arrived.push(observation);
    if (this.#arrived.length >= MAX_OBSERVATIONS) {
      this.#handOver();
    } else if (this.#arrived.length === 1) {
      setImmediate(() => this.#handOver());
    }
  }

  #handOver(): void {
    const observations = this.#arrived;
    this.#arrived = [];
    if (observations.length > 0 && !this.#isClosed) {
      this.#options.onObservations(observations);
    }
  }

  #setOpen(isOpen: boolean): void {
    if (isOpen === this.#isOpen) {
      return;
    }
    this.#isOpen = isOpen;
    if (!this.#isClosed) {
      this.#log('mint socket opened or closed', { isOpen });
    }
  }

  /** Never an id: whoever knows that of an unlocked quote can mint the money. */
  #log(message: string, fields: Record<string, unknown> = {}): void {
    this.#options.logger?.debug({ mintUrl: this.#options.mintUrl, ...fields }, message);
  }
}

/** `http(s)://host/path` is the mint, `ws(s)://host/path/v1/ws` its socket (NUT-17). */
function socketUrl(mintUrl: string): string {
  return `${mintUrl.replace(/^http/, 'ws')}/v1/ws`;
}
