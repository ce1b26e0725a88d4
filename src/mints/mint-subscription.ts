import type { Log } from '../log.ts';
import type { SocketConnector } from '../net/guarded-socket.ts';
import type { HostSlots } from '../net/host-slots.ts';
import type { QuoteObservation } from './quote-answer.ts';
import type { MintAnomalies } from './mint-anomalies.ts';
import type { MintPermit, MintRateLimiter } from './mint-rate-limiter.ts';
import {
  type ConnectionTiming,
  type OpenOutcome,
  type SubscribeOutcome,
  SubscriptionConnection,
} from './subscription-connection.ts';

/**
 * Quotes that wait to be subscribed; the oldest are left to polling. Less than a connection can take, so
 * that a mint with many quotes has room for new ones after each reconnect.
 */
const MAX_PENDING = 750;

/**
 * WebSockets to mints in one process, and to one host: few hosts have several mints. Each connection costs a
 * file descriptor and, with its quotes, 10 to 200 kB. A mint without a connection is polled.
 */
export const MINT_CONNECTION_LIMITS = { max: 2_000, maxPerHost: 8 } as const;

/** Connections to one mint. A full one stays open beside its successors until there are this many. */
const MAX_CONNECTIONS = 3;

/**
 * After this many messages on a connection, batches take several times as long: at 20 invoices a second, the
 * 100 messages that a connection takes would otherwise last for 5 s.
 */
const MESSAGES_BEFORE_SLOWER = 20;
const SLOWER_BATCH_FACTOR = 10;

/** Durations of a subscription, in milliseconds; tests shorten them. */
export interface SubscriptionTiming extends ConnectionTiming {
  /** Between the first messages: quotes that are watched in this time share one. */
  batchMs: number;
  /** The same for a mint that is known to limit messages. */
  spacedBatchMs: number;
  /** The delay before the first reconnect. It doubles with every further failure. */
  firstReconnectMs: number;
  /** The longest one, and the delay if the process has no connection to spare. */
  longestReconnectMs: number;
  /** The delay after the mint has flooded a connection. */
  floodRestMs: number;
  /** After a connection of this length, delays start from the first again. */
  stableAfterMs: number;
}

export const SUBSCRIPTION_TIMING: Readonly<SubscriptionTiming> = {
  batchMs: 50,
  spacedBatchMs: 2_000,
  firstReconnectMs: 1_000,
  longestReconnectMs: 60_000,
  floodRestMs: 10 * 60_000,
  stableAfterMs: 30_000,
  pingIntervalMs: 30_000,
  answerTimeoutMs: 15_000,
};

export interface MintSubscriptionParts {
  /** Normalised. */
  mintUrl: string;
  connect: SocketConnector;
  limiter: MintRateLimiter;
  /** Limits the connections to all mints together. A mint without one is polled. */
  slots: HostSlots;
  anomalies: Pick<MintAnomalies, 'report'>;
  monotonicMs: () => number;
  log: Pick<Log, 'debug'>;
  timing?: Partial<SubscriptionTiming>;
  /** Called with reports on watched quotes as they arrive. The first one on a quote may be stale. */
  onObservation: (observation: QuoteObservation) => void;
}

/**
 * Reports on the quotes of one mint over its WebSocket (NUT-17). It gives speed, not certainty: every
 * quote is polled too.
 */
export class MintSubscription {
  readonly #parts: MintSubscriptionParts;
  readonly #timing: SubscriptionTiming;
  readonly #watched = new Set<string>();
  /** Watched quotes to subscribe, the newest last. */
  #pending = new Set<string>();
  /** The last one takes new quotes. */
  #connections: SubscriptionConnection[] = [];
  /** Null if nothing is pending. */
  #subscribing: Promise<void> | null = null;
  #endPause: () => void = () => {};
  /** No connection is opened before this time. */
  #reconnectAtMs = Number.NEGATIVE_INFINITY;
  /** Connections in a row that ended soon. */
  #failures = 0;
  /** Whether polls may rely on the mint to report changes. */
  #isReliable = true;
  #isClosed = false;

  constructor(parts: MintSubscriptionParts) {
    this.#parts = parts;
    this.#timing = { ...SUBSCRIPTION_TIMING, ...parts.timing };
  }

  /** Subscribes to quotes that were just created. */
  watch(quoteIds: readonly string[]): void {
    this.#setPending([...this.#pending, ...this.#notWatched(quoteIds)]);
  }

  /** Subscribes to quotes, the newest last, unless newer ones need the room. */
  watchOlder(quoteIds: readonly string[]): void {
    this.#setPending([...this.#notWatched(quoteIds), ...this.#pending]);
  }

  /** Ignores further reports. The mint is not notified: that would cost a message and free nothing. */
  unwatch(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#watched.delete(quoteId);
      this.#pending.delete(quoteId);
    }
  }

  /** Whether the mint reports the quote on an open connection, so that polls can be less frequent. */
  covers(quoteId: string): boolean {
    return this.#isReliable && this.#connections.some((each) => each.covers(quoteId));
  }

  /**
   * Takes in that polls found news of these quotes. If the mint should have reported one, polls do not rely
   * on it until it reports a change again.
   */
  polledNews(quoteIds: readonly string[]): void {
    this.#isReliable &&= !quoteIds.some((quoteId) => this.covers(quoteId));
  }

  /** Closes all connections; resolves when they have ended. No callback comes after the call. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endPause();
    const connections = [...this.#connections];
    for (const connection of connections) {
      connection.close();
    }
    await Promise.all([this.#subscribing, ...connections.map(({ closed }) => closed)]);
  }

  #notWatched(quoteIds: readonly string[]): string[] {
    return quoteIds.filter((quoteId) => !this.#watched.has(quoteId));
  }

  /** Watches these quotes, and starts to subscribe the newest of them. */
  #setPending(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#watched.add(quoteId);
    }
    this.#pending = new Set(quoteIds.slice(-MAX_PENDING));
    if (this.#pending.size > 0 && !this.#isClosed) {
      this.#subscribing ??= this.#subscribePending();
    }
  }

  /** Subscribes quotes again, unless newer ones need the room. */
  #resubscribe(quoteIds: readonly string[]): void {
    const watched = quoteIds.filter((quoteId) => this.#watched.has(quoteId));
    this.#setPending([...watched, ...this.#pending]);
  }

  async #subscribePending(): Promise<void> {
    while (this.#pending.size > 0 && !this.#isClosed) {
      await this.#pause(await this.#advance());
    }
    this.#subscribing = null;
  }

  /** Opens a connection or sends a message, if that is possible now. Returns how long to wait after it. */
  async #advance(): Promise<number> {
    const { mintUrl, limiter, monotonicMs } = this.#parts;
    const reconnectInMs = this.#reconnectAtMs - monotonicMs();
    if (this.#connectionWithRoom() === null && reconnectInMs > 0) {
      return reconnectInMs;
    }
    const acquired = await limiter.acquire(mintUrl, 'socket');
    if (acquired.outcome === 'rate_limited') {
      return Math.max(acquired.retryAfterMs, this.#timing.batchMs);
    }
    const { permit } = acquired;
    const connection = this.#connectionWithRoom();
    if (this.#isClosed || this.#pending.size === 0) {
      permit.withdraw();
      return 0;
    }
    if (connection === null) {
      return await this.#open(permit);
    }
    const quoteIds = [...this.#pending].slice(-connection.room);
    for (const quoteId of quoteIds) {
      this.#pending.delete(quoteId);
    }
    void this.#subscribe(connection, permit, quoteIds);
    const { batchMs, spacedBatchMs } = this.#timing;
    if (limiter.knows(mintUrl, 'socket')) {
      return spacedBatchMs;
    }
    return connection.messages < MESSAGES_BEFORE_SLOWER ? batchMs : SLOWER_BATCH_FACTOR * batchMs;
  }

  #connectionWithRoom(): SubscriptionConnection | null {
    const newest = this.#connections.at(-1);
    return newest?.isOpen === true && newest.room > 0 ? newest : null;
  }

  async #open(permit: MintPermit): Promise<number> {
    const { mintUrl, connect, slots, monotonicMs, anomalies } = this.#parts;
    if (!slots.acquire(mintUrl)) {
      permit.withdraw();
      return this.#timing.longestReconnectMs;
    }
    const connection = new SubscriptionConnection({
      socket: connect(`${mintUrl.replace(/^http/, 'ws')}/v1/ws`),
      timing: this.#timing,
      onObservation: (observation, isChange) => this.#report(observation, isChange),
      onUnknownQuote: () => anomalies.report(mintUrl, 'unasked'),
    });
    const openedAtMs = monotonicMs();
    const ended = connection.closed.then(() => this.#ended(connection, openedAtMs));
    this.#connections.push(connection);
    if (this.#connections.length > MAX_CONNECTIONS) {
      this.#connections.shift()?.close();
    }
    const outcome = await connection.opened;
    settle(permit, outcome);
    this.#log('mint socket handshake finished', { handshake: outcome });
    // A mint may also close a connection at once. Without its end there would be no backoff.
    if (!connection.isOpen) {
      await ended;
    }
    return 0;
  }

  async #subscribe(
    connection: SubscriptionConnection,
    permit: MintPermit,
    quoteIds: readonly string[],
  ): Promise<void> {
    const outcome = await connection.subscribe(quoteIds);
    settle(permit, outcome);
    this.#log('subscription answered', { quotes: quoteIds.length, outcome });
    if (outcome === 'rate_limited') {
      this.#resubscribe(quoteIds);
    } else if (outcome === 'unanswered') {
      connection.close();
    }
  }

  /** Subscribes the quotes of a lost connection again; those of a full one that was closed are polled. */
  #ended(connection: SubscriptionConnection, openedAtMs: number): void {
    const { mintUrl, slots, anomalies, monotonicMs } = this.#parts;
    slots.release(mintUrl);
    if (this.#isClosed || !this.#connections.includes(connection)) {
      return;
    }
    this.#connections = this.#connections.filter((each) => each !== connection);
    const { firstReconnectMs, longestReconnectMs, stableAfterMs, floodRestMs } = this.#timing;
    const nowMs = monotonicMs();
    this.#failures = nowMs - openedAtMs >= stableAfterMs ? 1 : this.#failures + 1;
    const backoffMs = Math.min(firstReconnectMs * 2 ** (this.#failures - 1), longestReconnectMs);
    // Partly random, so that many processes and mints do not reconnect at the same moment.
    let reconnectInMs = backoffMs * (0.5 + Math.random() / 2);
    if (connection.hasFlooded) {
      anomalies.report(mintUrl, 'socket_flooding');
      reconnectInMs = floodRestMs;
    }
    this.#reconnectAtMs = Math.max(this.#reconnectAtMs, nowMs + reconnectInMs);
    this.#log('mint socket closed', { reconnectInMs });
    this.#resubscribe(connection.quoteIds());
  }

  #report(observation: QuoteObservation, isChange: boolean): void {
    this.#isReliable ||= isChange;
    if (this.#watched.has(observation.quoteId) && !this.#isClosed) {
      this.#parts.onObservation(observation);
    }
  }

  /** Waits; not longer than until the subscription is closed. */
  #pause(durationMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, Math.ceil(durationMs)).unref();
    this.#endPause = () => {
      clearTimeout(timer);
      resolve();
    };
    if (this.#isClosed || durationMs <= 0) {
      this.#endPause();
    }
    return promise;
  }

  /** Never logs the id of a quote: anyone who knows that of an unlocked quote can mint the money. */
  #log(message: string, fields: Record<string, unknown>): void {
    this.#parts.log.debug({ mintUrl: this.#parts.mintUrl, ...fields }, message);
  }
}

/** Reports to the rate limiter what came of a handshake or a message. */
function settle(permit: MintPermit, outcome: OpenOutcome | SubscribeOutcome): void {
  switch (outcome) {
    case 'open':
    case 'confirmed':
    case 'rejected':
      permit.settle({ outcome: 'found' });
      break;
    case 'rate_limited':
      permit.settle({ outcome: 'rate_limited', retryAfterMs: null });
      break;
    case 'failed':
    case 'unanswered':
      permit.settle({ outcome: 'unavailable', reason: `WebSocket: ${outcome}` });
      break;
    case 'closed':
      permit.withdraw();
  }
}
