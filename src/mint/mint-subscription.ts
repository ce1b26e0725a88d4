import type { Logger } from 'pino';
import type { ObservedState, QuoteObservation } from '../domain/quote.ts';
import type { SocketConnector } from '../net/guarded-socket.ts';
import { lookAfter } from '../net/socket-message.ts';
import type { MintAnomalies } from './mint-anomalies.ts';
import type { MintPermit, MintRateLimiter } from './mint-rate-limiter.ts';
import type { SocketAllowance } from './socket-allowance.ts';
import {
  type ConnectionTiming,
  type SubscribeOutcome,
  SubscriptionConnection,
} from './subscription-connection.ts';

/** Watched quotes; the oldest are dropped beyond it. Polling has them all anyway. */
const MAX_WATCHED = 10_000;

/** Quotes of a lost connection that are subscribed again, so that a new one has room for new quotes. */
const MAX_RESUBSCRIBED = 750;

/** Connections to one mint. A full one stays open beside the next until there are this many. */
const MAX_CONNECTIONS = 3;

/** Connections in a row that did not report what polls found, before polls stop relying on them. */
const MAX_SILENCES = 3;

/** How a mint refuses a handshake because there were too many: 429, or 500 for Nutshell (measured). */
const RATE_LIMITED_STATUSES: ReadonlySet<number> = new Set([429, 500]);

/** Durations of a subscription, in milliseconds; tests shorten them. */
export interface SubscriptionTiming extends ConnectionTiming {
  /** Quotes that are watched within this time share one message. */
  batchMs: number;
  /** The same for a mint that is known to limit messages. */
  spacedBatchMs: number;
  /** The delay before the first reconnect. It doubles with every further failure. */
  firstReconnectMs: number;
  longestReconnectMs: number;
  /** The delay after a flood, which doubles as well. */
  firstFloodRestMs: number;
  longestFloodRestMs: number;
  /** When the process has no connection to spare. */
  noAllowanceRestMs: number;
  /** After a connection of this length, delays start from the first again. */
  stableAfterMs: number;
  /** What a poll has found must be reported within this time, or the connection is silent. */
  silenceGraceMs: number;
  /** How long polls do not rely on a mint that was silent repeatedly. */
  distrustMs: number;
}

export const SUBSCRIPTION_TIMING: Readonly<SubscriptionTiming> = {
  batchMs: 50,
  spacedBatchMs: 2_000,
  firstReconnectMs: 1_000,
  longestReconnectMs: 60_000,
  firstFloodRestMs: 60_000,
  longestFloodRestMs: 60 * 60_000,
  noAllowanceRestMs: 3 * 60_000,
  stableAfterMs: 30_000,
  silenceGraceMs: 10_000,
  distrustMs: 60 * 60_000,
  pingIntervalMs: 30_000,
  answerTimeoutMs: 15_000,
  settledAfterMs: 5_000,
};

export interface SubscriptionEvents {
  /** Called with reports on watched quotes as they come. The first one on a quote may be stale. */
  onObservations: (observations: readonly QuoteObservation[]) => void;
}

export interface MintSubscriptionParts extends SubscriptionEvents {
  /** Normalised. */
  mintUrl: string;
  connect: SocketConnector;
  limiter: MintRateLimiter;
  /** Bounds the connections to all mints together. */
  allowance: SocketAllowance;
  anomalies: Pick<MintAnomalies, 'report'>;
  monotonicMs: () => number;
  logger: Pick<Logger, 'debug' | 'warn'>;
  timing?: Partial<SubscriptionTiming>;
}

/**
 * Reports on the mint quotes of one mint over its WebSocket (NUT-17). New quotes are subscribed at once.
 * It gives speed and no certainty: everything is polled too.
 */
export class MintSubscription {
  readonly #parts: MintSubscriptionParts;
  readonly #timing: SubscriptionTiming;
  /** Watched ids, the oldest first. */
  readonly #watched = new Set<string>();
  /** Those of them that no connection has been given yet. */
  readonly #pending = new Set<string>();
  /** The newest last, which takes new quotes. */
  #connections: SubscriptionConnection[] = [];
  /** Full connections that were closed for newer ones. */
  readonly #replaced = new WeakSet<SubscriptionConnection>();
  #flushTimer: NodeJS.Timeout | undefined;
  #flushAtMs = Number.POSITIVE_INFINITY;
  #flushing: Promise<void> = Promise.resolve();
  /** No connection is opened before this time. */
  #reconnectAtMs = Number.NEGATIVE_INFINITY;
  /** Connections in a row that failed soon. */
  #failures = 0;
  #silences = 0;
  #distrustedUntilMs = Number.NEGATIVE_INFINITY;
  #arrived: QuoteObservation[] = [];
  #isClosed = false;

  constructor(parts: MintSubscriptionParts) {
    this.#parts = parts;
    this.#timing = { ...SUBSCRIPTION_TIMING, ...parts.timing };
  }

  /** Asks for reports on these quotes, the newest last. */
  watch(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      if (!this.#watched.has(quoteId)) {
        this.#watched.add(quoteId);
        this.#pending.add(quoteId);
      }
    }
    for (const oldest of this.#watched) {
      if (this.#watched.size <= MAX_WATCHED) {
        break;
      }
      this.#watched.delete(oldest);
      this.#pending.delete(oldest);
    }
    this.#flushSoon(this.#batchMs());
  }

  /** Forgets quotes. The mint is not told: that would cost a message and free nothing. */
  unwatch(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#watched.delete(quoteId);
      this.#pending.delete(quoteId);
    }
  }

  /** Whether the mint confirmed to report the quote on an open connection, and is trusted to do so. */
  covers(quoteId: string): boolean {
    return this.#connections.some((connection) => connection.covers(quoteId)) && this.#isTrusted();
  }

  /**
   * Takes in what a poll found. A connection that does not report it soon is silent: it is replaced, and
   * after several in a row polls stop relying on the mint's connections for a while.
   */
  polledNews(quoteId: string, state: ObservedState): void {
    const connection = this.#connections.find((each) => each.lacks(quoteId, state));
    if (connection !== undefined && this.#isTrusted()) {
      lookAfter(this.#timing.silenceGraceMs, () => {
        if (connection.lacks(quoteId, state)) {
          this.#noteSilence(connection);
        }
      });
    }
  }

  /** Closes all connections; resolves when they have ended. No callback comes after the call. */
  async close(): Promise<void> {
    this.#handOver();
    this.#isClosed = true;
    clearTimeout(this.#flushTimer);
    const connections = [...this.#connections];
    for (const connection of connections) {
      connection.close();
    }
    await Promise.all([this.#flushing, ...connections.map(({ closed }) => closed)]);
  }

  #batchMs(): number {
    const isLimited = this.#parts.limiter.knows(this.#parts.mintUrl, 'socket');
    return isLimited ? this.#timing.spacedBatchMs : this.#timing.batchMs;
  }

  #flushSoon(delayMs: number): void {
    const flushAtMs = this.#parts.monotonicMs() + delayMs;
    if (this.#pending.size === 0 || this.#isClosed || flushAtMs >= this.#flushAtMs) {
      return;
    }
    clearTimeout(this.#flushTimer);
    this.#flushAtMs = flushAtMs;
    this.#flushTimer = setTimeout(() => {
      this.#flushAtMs = Number.POSITIVE_INFINITY;
      this.#flushing = this.#flushing.then(() => this.#flush());
    }, Math.ceil(delayMs)).unref();
  }

  /** Subscribes what is pending, as far as that is possible now. */
  async #flush(): Promise<void> {
    while (this.#pending.size > 0 && !this.#isClosed) {
      const connection = await this.#connectionWithRoom();
      const permit = connection === null ? null : await this.#permit();
      if (connection === null || permit === null) {
        return;
      }
      const quoteIds = [...this.#pending].slice(-connection.room);
      if (!connection.isOpen || quoteIds.length === 0) {
        permit.withdraw();
        continue;
      }
      for (const quoteId of quoteIds) {
        this.#pending.delete(quoteId);
      }
      void this.#subscribe(connection, permit, quoteIds);
    }
  }

  async #subscribe(
    connection: SubscriptionConnection,
    permit: MintPermit,
    quoteIds: readonly string[],
  ): Promise<void> {
    const outcome = await connection.subscribe(quoteIds);
    settle(permit, outcome);
    this.#log('subscription answered', { quotes: quoteIds.length, outcome });
    switch (outcome) {
      case 'rate_limited':
        this.#resubscribe(quoteIds);
        this.#flushSoon(this.#batchMs());
        break;
      case 'unanswered':
        connection.close();
        break;
      case 'confirmed':
      case 'rejected':
      case 'closed':
    }
  }

  /** An open connection that can take more quotes; null if there is none now, and a later flush is planned. */
  async #connectionWithRoom(): Promise<SubscriptionConnection | null> {
    const current = this.#connections.at(-1);
    if (current?.isOpen === true && current.room > 0) {
      return current;
    }
    const waitMs = this.#reconnectAtMs - this.#parts.monotonicMs();
    if (waitMs > 0) {
      this.#flushSoon(waitMs);
      return null;
    }
    return await this.#open();
  }

  async #open(): Promise<SubscriptionConnection | null> {
    const { mintUrl, connect, allowance, monotonicMs, anomalies } = this.#parts;
    const permit = await this.#permit();
    if (permit === null || this.#isClosed || !allowance.take(mintUrl)) {
      permit?.withdraw();
      this.#flushSoon(this.#timing.noAllowanceRestMs);
      return null;
    }
    const connection = new SubscriptionConnection({
      socket: connect(`${mintUrl.replace(/^http/, 'ws')}/v1/ws`),
      timing: this.#timing,
      monotonicMs,
      onObservation: (observation, isNews) => this.#take(observation, isNews),
      onFlood: () => this.#noteFlood(),
      onAnomaly: (anomaly, times) => anomalies.report(mintUrl, anomaly, times),
    });
    this.#connections.push(connection);
    const openedAtMs = monotonicMs();
    void connection.closed.then(() => this.#closed(connection, openedAtMs));
    this.#closeOldest();
    const opened = await connection.opened;
    if (opened.isOpen) {
      permit.settle({ outcome: 'found' });
      this.#log('mint socket opened');
      return connection;
    }
    const isLimited = RATE_LIMITED_STATUSES.has(opened.refusedStatus ?? 0);
    permit.settle(
      isLimited
        ? { outcome: 'rate_limited', retryAfterMs: null }
        : { outcome: 'unavailable', reason: 'no connection' },
    );
    return null;
  }

  #closeOldest(): void {
    const [oldest] = this.#connections;
    if (oldest !== undefined && this.#connections.length > MAX_CONNECTIONS) {
      this.#replaced.add(oldest);
      oldest.close();
    }
  }

  /** Null if the limiter does not permit a message now; a later flush is planned then. */
  async #permit(): Promise<MintPermit | null> {
    const acquired = await this.#parts.limiter.acquire(this.#parts.mintUrl, 'socket');
    if (acquired.outcome === 'granted') {
      return acquired.permit;
    }
    this.#flushSoon(acquired.retryAfterMs);
    return null;
  }

  /** The quotes of a lost connection are subscribed again; those of a full one that was replaced, polled. */
  #closed(connection: SubscriptionConnection, openedAtMs: number): void {
    this.#connections = this.#connections.filter((each) => each !== connection);
    this.#parts.allowance.giveBack(this.#parts.mintUrl);
    if (this.#isClosed || this.#replaced.has(connection)) {
      return;
    }
    const { firstReconnectMs, longestReconnectMs, stableAfterMs } = this.#timing;
    const nowMs = this.#parts.monotonicMs();
    this.#failures = nowMs - openedAtMs >= stableAfterMs ? 1 : this.#failures + 1;
    const delayMs = Math.min(firstReconnectMs * 2 ** (this.#failures - 1), longestReconnectMs);
    // Partly random, so that many processes and mints do not come back at one moment.
    this.#reconnectAtMs = Math.max(
      this.#reconnectAtMs,
      nowMs + delayMs * (0.5 + Math.random() / 2),
    );
    this.#log('mint socket closed', { reconnectInMs: this.#reconnectAtMs - nowMs });
    this.#resubscribe(connection.quoteIds().slice(-MAX_RESUBSCRIBED));
    this.#flushSoon(this.#reconnectAtMs - nowMs);
  }

  #resubscribe(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      if (this.#watched.has(quoteId)) {
        this.#pending.add(quoteId);
      }
    }
  }

  #noteFlood(): void {
    const { firstFloodRestMs, longestFloodRestMs } = this.#timing;
    const restMs = Math.min(firstFloodRestMs * 2 ** this.#failures, longestFloodRestMs);
    this.#reconnectAtMs = this.#parts.monotonicMs() + restMs;
    this.#parts.logger.warn(
      { event: 'mint_socket_flooding', mintUrl: this.#parts.mintUrl, restMs },
      'mint floods its WebSocket; closing it for a while',
    );
  }

  #noteSilence(connection: SubscriptionConnection): void {
    const { anomalies, mintUrl, monotonicMs } = this.#parts;
    anomalies.report(mintUrl, 'socket_silent');
    this.#silences += 1;
    if (this.#silences >= MAX_SILENCES) {
      this.#distrustedUntilMs = monotonicMs() + this.#timing.distrustMs;
    }
    connection.close();
  }

  #isTrusted(): boolean {
    return this.#parts.monotonicMs() >= this.#distrustedUntilMs;
  }

  /**
   * What arrives in one turn of the event loop is handed over together.
   *
   * @param isNews whether the quote had another state before, so that the mint reported by itself
   */
  #take(observation: QuoteObservation, isNews: boolean): void {
    if (!this.#watched.has(observation.quoteId)) {
      return;
    }
    if (isNews) {
      this.#silences = 0;
    }
    this.#arrived.push(observation);
    if (this.#arrived.length === 1) {
      setImmediate(() => this.#handOver());
    }
  }

  #handOver(): void {
    const observations = this.#arrived;
    this.#arrived = [];
    if (observations.length > 0 && !this.#isClosed) {
      this.#parts.onObservations(observations);
    }
  }

  /** Never logs an id: anyone who knows that of an unlocked quote can mint the money. */
  #log(message: string, fields: Record<string, unknown> = {}): void {
    this.#parts.logger.debug({ mintUrl: this.#parts.mintUrl, ...fields }, message);
  }
}

function settle(permit: MintPermit, outcome: SubscribeOutcome): void {
  switch (outcome) {
    case 'confirmed':
    case 'rejected':
      permit.settle({ outcome: 'found' });
      break;
    case 'rate_limited':
      permit.settle({ outcome: 'rate_limited', retryAfterMs: null });
      break;
    case 'unanswered':
      permit.settle({ outcome: 'unavailable', reason: 'no answer to a subscription' });
      break;
    case 'closed':
      permit.withdraw();
  }
}
