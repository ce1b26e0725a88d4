import type { Logger } from 'pino';
import type { Clock } from '../domain/clock.ts';
import type { ObservedState, QuoteObservation } from '../domain/quote.ts';
import type { SocketConnector } from '../net/guarded-socket.ts';
import { MessageBudget } from './message-budget.ts';
import type { Misconduct } from './mint-conduct.ts';
import type { SocketAllowance } from './socket-allowance.ts';
import { type ConnectionFault, SubscriptionConnection } from './subscription-connection.ts';
import { type ConnectionEnd, ReconnectPace } from './subscription-pace.ts';
import { DEFAULT_TIMING, type SubscriptionTiming } from './subscription-timing.ts';
import { SocketTrust } from './subscription-trust.ts';

/**
 * The ids that a connection is given while it has room for 1000: the rest of the room is for quotes
 * that are yet to come. They are the ones about to be paid, and a full connection takes no more.
 */
const MAX_WANTED = 750;

/** Ids held in the hope of room; the oldest are let go beyond it. Polling has them all anyway. */
const MAX_WATCHED = 10_000;

/** With {@link DEFAULT_TIMING}, at most 18 messages in any minute, until a mint refuses one. */
const MESSAGE_BURST = 6;

/** In messages. */
const OPENING_AND_SUBSCRIBING = 2;

/** Observations are handed over in batches of at most this many. */
const MAX_OBSERVATIONS = 500;

/** How a mint says that its minute is used up: as it should, and Nutshell's handshake (measured). */
const RATE_LIMITED_STATUSES: ReadonlySet<number> = new Set([429, 500]);

/** What a mint can do wrong by its socket. */
export type SocketMisconduct = Extract<Misconduct, 'socket_silent' | 'socket_flooding' | 'unasked'>;

export interface MintSubscriptionOptions {
  /** Normalised. */
  mintUrl: string;
  connect: SocketConnector;
  /** Bounds the sockets to all mints together. */
  allowance: SocketAllowance;
  /** Called with news of watched quotes, as they came: a late and stale state may be among them. */
  onObservations: (observations: QuoteObservation[]) => void;
  /**
   * Called where somebody may rely on the socket and nothing is covered: no subscription was
   * confirmed soon after the first quote was watched, the socket was lost and did not come back soon,
   * or it proved silent too often. Not called again before {@link MintSubscription.covers} said yes.
   */
  onUncovered: () => void;
  /** Called now and then with how often it happened since the last such call. */
  onMisconduct: (kind: SocketMisconduct, count: number) => void;
  clock: Clock;
  logger: Pick<Logger, 'debug' | 'warn'>;
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
  readonly #pace: ReconnectPace;
  readonly #trust: SocketTrust;
  /** Watched ids, the oldest first. */
  readonly #watched = new Set<string>();
  /** It holds one place of the allowance, from its making until it is let go. */
  #connection: SubscriptionConnection | null = null;
  #isOpen = false;
  /** Milliseconds since 1970. */
  #openedAt = 0;
  /** Runs while there is to be no new connection. */
  #restTimer: NodeJS.Timeout | null = null;
  /** When to see again what there is to do. */
  #stepTimer: NodeJS.Timeout | undefined;
  /** By `performance.now()`, like timers: the clock may jump. */
  #stepDueAt = Number.POSITIVE_INFINITY;
  /**
   * Somebody was told that a quote is covered, and not yet that none is. At first it may have been a
   * process before this one, by a socket that has died with it.
   */
  #isReliedOn = true;
  /** Runs from the first watched quote, or a connection's end, to the next confirmed subscription. */
  #uncoveredTimer: NodeJS.Timeout | null = null;
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
      refusalRestMs: this.#timing.rateLimitRestMs,
      quietMs: this.#timing.quietMs,
    });
    this.#pace = new ReconnectPace(this.#timing);
    this.#trust = new SocketTrust(this.#timing.distrustMs);
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
    if (this.#connection === null && this.#watched.size > 0) {
      this.#awaitCover();
    }
    this.#stepWithin(this.#timing.batchMs);
  }

  /** Forgets quotes. The mint is not told: it would cost a message and free nothing. */
  unwatch(quoteIds: Iterable<string>): void {
    for (const quoteId of quoteIds) {
      this.#watched.delete(quoteId);
    }
    this.#stepWithin(this.#timing.regroupMs);
  }

  /** Whether news of the quote comes by itself: the mint confirmed it on the socket open now. */
  covers(quoteId: string): boolean {
    const isCovered =
      this.#watched.has(quoteId) &&
      this.#connection?.covers(quoteId) === true &&
      this.#trust.isTrusted(this.#options.clock());
    this.#isReliedOn ||= isCovered;
    return isCovered;
  }

  /**
   * Tells that a poll brought news of a quote. A socket that should have told it, and does not soon,
   * is silent: it is opened anew, and after several such in a row covers nothing for a while.
   */
  polledNews(quoteId: string, state: ObservedState): void {
    this.#connection?.polledNews(quoteId, state);
  }

  /**
   * Ends the socket for good; resolves when it has ended. What has arrived by then is handed over
   * during the call; no callback comes after it.
   */
  async close(): Promise<void> {
    this.#handOver();
    this.#isClosed = true;
    clearTimeout(this.#stepTimer);
    clearTimeout(this.#restTimer ?? undefined);
    clearTimeout(this.#uncoveredTimer ?? undefined);
    this.#watched.clear();
    if (this.#connection !== null) {
      this.#connection.close();
      this.#letGo();
    }
    await Promise.all(this.#endings);
  }

  /** Does the next thing that is to be done and may be done now: open, subscribe, or start anew. */
  #step(): void {
    if (this.#isClosed || this.#watched.size === 0) {
      return;
    }
    if (this.#connection === null) {
      this.#open();
    } else if (this.#connection.isOpen && this.#mayGo()) {
      this.#subscribeMissing(this.#connection);
    }
  }

  #open(): void {
    if (this.#restTimer !== null || !this.#mayGo()) {
      return;
    }
    if (!this.#options.allowance.take(this.#options.mintUrl)) {
      this.#rest(this.#timing.noPlaceRestMs);
      return;
    }
    this.#budget.take(this.#options.clock());
    const ending = Promise.withResolvers<void>();
    this.#endings.add(ending.promise);
    const connection: SubscriptionConnection = new SubscriptionConnection({
      socket: this.#options.connect(socketUrl(this.#options.mintUrl)),
      timing: this.#timing,
      clock: this.#options.clock,
      events: {
        onOpen: () => this.#opened(connection),
        onClosed: (refusedStatus) => {
          this.#endings.delete(ending.promise);
          ending.resolve();
          this.#closed(connection, refusedStatus);
        },
        onAnswer: (count, isConfirmed) => this.#answered(count, isConfirmed),
        onRateLimited: () => this.#rateLimited(),
        onObservation: (observation, isFirst) => {
          if (isFirst) {
            this.#trust.toldFirst();
          }
          this.#take(observation);
        },
        onFault: (fault) => this.#giveUp(connection, fault),
        onMisconduct: (kind, count) => this.#blame(kind, count),
      },
    });
    this.#connection = connection;
  }

  #opened(connection: SubscriptionConnection): void {
    if (connection !== this.#connection) {
      return;
    }
    this.#openedAt = this.#options.clock();
    this.#budget.answered(this.#openedAt);
    this.#log('mint socket opened');
    this.#setOpen(true);
    this.#step();
  }

  #subscribeMissing(connection: SubscriptionConnection): void {
    const missing = this.#missingOn(connection);
    if (missing.length === 0) {
      return;
    }
    if (connection.room === 0) {
      this.#replace(connection);
      return;
    }
    this.#budget.take(this.#options.clock());
    connection.subscribe(missing.slice(-connection.room));
    this.#stepWithin(this.#timing.batchMs);
  }

  #answered(count: number, isConfirmed: boolean): void {
    this.#budget.answered(this.#options.clock());
    this.#log('subscription answered', { count, isConfirmed });
    if (isConfirmed && this.#uncoveredTimer !== null) {
      clearTimeout(this.#uncoveredTimer);
      this.#uncoveredTimer = null;
    }
  }

  /** The connection stays: what it covers it still covers, and opening another costs a message. */
  #rateLimited(): void {
    this.#budget.refused(this.#options.clock());
    this.#log('mint socket rate limited');
    this.#step();
  }

  /** A used-up connection makes way for one with only the ids that are still watched. */
  #replace(connection: SubscriptionConnection): void {
    const { shortestLifeMs } = this.#timing;
    const remainingMs = this.#openedAt + shortestLifeMs - this.#options.clock();
    if (remainingMs > 0) {
      // Where the clock was set back, the time begins anew and is not stretched.
      this.#stepWithin(Math.min(remainingMs, shortestLifeMs));
      return;
    }
    // The new one must not be without its ids for long.
    if (!this.#mayGo(OPENING_AND_SUBSCRIBING)) {
      return;
    }
    this.#log('mint socket used up');
    connection.close();
    this.#letGo();
    this.#step();
  }

  #closed(connection: SubscriptionConnection, refusedStatus: number | null): void {
    if (connection !== this.#connection) {
      return;
    }
    const isLimited = refusedStatus !== null && RATE_LIMITED_STATUSES.has(refusedStatus);
    if (isLimited) {
      this.#budget.refused(this.#options.clock());
    }
    const restMs = this.#restAfter(isLimited ? 'rate_limited' : 'cut');
    this.#log('mint socket ended', { refusedStatus, restMs });
    this.#letGo();
    this.#rest(restMs);
  }

  /** Ends a connection that is of no use, and tries another after a while. */
  #giveUp(connection: SubscriptionConnection, fault: ConnectionFault): void {
    const { clock, logger, mintUrl } = this.#options;
    if (fault === 'silent' && !this.#trust.foundSilent(clock())) {
      return;
    }
    const isTrusted = this.#trust.isTrusted(clock());
    const restMs = this.#restAfter(fault);
    const detail = { fault, restMs, isTrusted };
    if (fault === 'unanswered') {
      this.#log('mint socket given up', detail);
    } else {
      logger.warn({ mintUrl, ...detail }, `a mint's socket is ${fault}`);
    }
    if (fault === 'silent') {
      this.#blame('socket_silent', 1);
    }
    connection.close();
    this.#letGo();
    this.#rest(restMs);
    if (!isTrusted) {
      this.#tellUncovered();
    }
  }

  #letGo(): void {
    this.#connection = null;
    this.#options.allowance.giveBack(this.#options.mintUrl);
    this.#setOpen(false);
    this.#awaitCover();
  }

  /** Whoever relies on the socket hears of it where no subscription is confirmed in time. */
  #awaitCover(): void {
    if (this.#isReliedOn && !this.#isClosed) {
      this.#uncoveredTimer ??= setTimeout(() => {
        this.#uncoveredTimer = null;
        this.#tellUncovered();
      }, this.#timing.uncoveredAfterMs).unref();
    }
  }

  #tellUncovered(): void {
    if (this.#isReliedOn) {
      this.#isReliedOn = false;
      this.#options.onUncovered();
    }
  }

  #restAfter(end: ConnectionEnd): number {
    const openForMs = this.#options.clock() - this.#openedAt;
    return this.#pace.restMs(end, this.#isOpen && openForMs >= this.#timing.stableAfterMs);
  }

  #rest(restMs: number): void {
    this.#restTimer = setTimeout(() => {
      this.#restTimer = null;
      this.#step();
    }, restMs).unref();
  }

  /** The newest watched ids that the connection was never given, the newest last. */
  #missingOn(connection: SubscriptionConnection): string[] {
    return [...this.#watched]
      .slice(-MAX_WANTED)
      .filter((quoteId) => !connection.hasSubscribed(quoteId));
  }

  /** Whether so many messages may be sent now; where not, comes back when they may. */
  #mayGo(messages = 1): boolean {
    const waitMs = this.#budget.waitMs(this.#options.clock(), messages);
    if (waitMs > 0) {
      this.#stepWithin(waitMs);
    }
    return waitMs === 0;
  }

  #stepWithin(delayMs: number): void {
    const dueAt = performance.now() + delayMs;
    if (this.#isClosed || this.#stepDueAt <= dueAt) {
      return;
    }
    clearTimeout(this.#stepTimer);
    this.#stepDueAt = dueAt;
    this.#stepTimer = setTimeout(() => {
      this.#stepDueAt = Number.POSITIVE_INFINITY;
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

  #blame(kind: SocketMisconduct, count: number): void {
    if (!this.#isClosed) {
      this.#options.onMisconduct(kind, count);
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
    this.#options.logger.debug({ mintUrl: this.#options.mintUrl, ...fields }, message);
  }
}

/** `http(s)://host/path` is the mint, `ws(s)://host/path/v1/ws` its socket (NUT-17). */
function socketUrl(mintUrl: string): string {
  return `${mintUrl.replace(/^http/, 'ws')}/v1/ws`;
}
