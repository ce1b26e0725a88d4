import type { Logger } from '../log.ts';
import type { WebSocketConnector } from '../net/guarded-websocket.ts';
import type { HostSemaphore } from '../net/host-semaphore.ts';
import type { MintAnomalyCounter } from './mint-anomalies.ts';
import type { MintPermit, MintRateLimiter } from './mint-rate-limiter.ts';
import type { QuoteObservation } from './quote-responses.ts';
import {
  type OpenOutcome,
  type SubscribeOutcome,
  SubscriptionConnection,
} from './subscription-connection.ts';

/** Quotes to subscribe; older ones are only polled. Fewer than fit on a connection, to leave room for new quotes. */
const MAX_PENDING_QUOTES = 750;

/** For WebSockets to mints. Each costs a file descriptor and 10 to 200 kB. A mint without one is only polled. */
export const MINT_CONNECTION_LIMITS = { max: 2_000, maxPerHost: 8 } as const;

/** Connections to one mint. A full one stays open until its third successor opens. */
const MAX_CONNECTIONS = 3;

/**
 * After this many messages on a connection, the batch interval is longer: at 20 invoices a second, the 100
 * messages of a connection would otherwise be used up in 5 s.
 */
const MESSAGES_BEFORE_SLOWDOWN = 20;
const SLOWDOWN_FACTOR = 10;

/** In milliseconds; tests shorten them. */
export const SUBSCRIPTION_TIMING = {
  /** Quotes that are watched within this time share a message. */
  batchIntervalMs: 50,
  /** The same for a mint with a learned limit. */
  rateLimitedBatchIntervalMs: 2_000,
  /** The delay before the first reconnect; it doubles with each further failure. */
  initialReconnectDelayMs: 1_000,
  /** Also the delay if all connection slots are in use. */
  maxReconnectDelayMs: 60_000,
  /** The delay after the mint flooded a connection. */
  floodCooldownMs: 10 * 60_000,
  /** A connection that lasted this long resets the reconnect delay. */
  stableAfterMs: 30_000,
  pingIntervalMs: 30_000,
  responseTimeoutMs: 15_000,
};

export type SubscriptionTiming = typeof SUBSCRIPTION_TIMING;

export interface MintSubscriptionDeps {
  mintUrl: string;
  connect: WebSocketConnector;
  limiter: MintRateLimiter;
  /** Shared by all mints. */
  connectionSlots: HostSemaphore;
  anomalies: Pick<MintAnomalyCounter, 'report'>;
  monotonicMs: () => number;
  log: Pick<Logger, 'debug'>;
  timing?: Partial<SubscriptionTiming>;
  /** The first report on a quote may be stale. */
  onObservation: (observation: QuoteObservation) => void;
}

/**
 * Receives the state changes of one mint's quotes over its WebSocket (NUT-17). It only provides speed: every quote
 * is polled too.
 */
export class MintSubscription {
  readonly #deps: MintSubscriptionDeps;
  readonly #timing: SubscriptionTiming;
  readonly #watched = new Set<string>();
  /** Watched quotes to subscribe, newest last. */
  #pending = new Set<string>();
  /** Oldest first. New quotes are subscribed on the last one. */
  #connections: SubscriptionConnection[] = [];
  /** The loop that subscribes pending quotes; null if none are pending. */
  #subscribing: Promise<void> | null = null;
  #cancelPause: () => void = () => {};
  #reconnectAtMs = Number.NEGATIVE_INFINITY;
  /** Consecutive connections that ended early. */
  #shortConnections = 0;
  /** False after polling found a change that the mint should have reported. */
  #isReliable = true;
  #isClosed = false;

  constructor(deps: MintSubscriptionDeps) {
    this.#deps = deps;
    this.#timing = { ...SUBSCRIPTION_TIMING, ...deps.timing };
  }

  /** Subscribes to new quotes. */
  subscribe(quoteIds: readonly string[]): void {
    this.#setPending([...this.#pending, ...this.#excludeWatched(quoteIds)]);
  }

  /** Subscribes to older quotes, newest last, as far as newer ones leave room. */
  subscribeOlder(quoteIds: readonly string[]): void {
    this.#setPending([...this.#excludeWatched(quoteIds), ...this.#pending]);
  }

  /** Ignores further reports. Unsubscribing at the mint would cost a message and free nothing. */
  ignore(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#watched.delete(quoteId);
      this.#pending.delete(quoteId);
    }
  }

  /** Whether the mint reliably reports changes of the quote, so that it can be polled less often. */
  isCovered(quoteId: string): boolean {
    return this.#isReliable && this.#connections.some((each) => each.isCovered(quoteId));
  }

  /**
   * Records that polling found changes of these quotes. If the mint should have reported one, it counts as
   * unreliable until it reports a change again.
   */
  recordPolledChanges(quoteIds: readonly string[]): void {
    this.#isReliable &&= !quoteIds.some((quoteId) => this.isCovered(quoteId));
  }

  /** Closes all connections; resolves when they are closed. No callback is called after this. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelPause();
    const connections = [...this.#connections];
    for (const connection of connections) {
      connection.close();
    }
    await Promise.all([this.#subscribing, ...connections.map(({ closed }) => closed)]);
  }

  #excludeWatched(quoteIds: readonly string[]): string[] {
    return quoteIds.filter((quoteId) => !this.#watched.has(quoteId));
  }

  #setPending(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#watched.add(quoteId);
    }
    this.#pending = new Set(quoteIds.slice(-MAX_PENDING_QUOTES));
    if (this.#pending.size > 0 && !this.#isClosed) {
      this.#subscribing ??= this.#subscribePending();
    }
  }

  #requeue(quoteIds: readonly string[]): void {
    const watched = quoteIds.filter((quoteId) => this.#watched.has(quoteId));
    this.#setPending([...watched, ...this.#pending]);
  }

  async #subscribePending(): Promise<void> {
    while (this.#pending.size > 0 && !this.#isClosed) {
      await this.#pause(await this.#sendNext());
    }
    this.#subscribing = null;
  }

  /** Opens a connection or sends a subscription if possible. Returns how long to wait before the next call. */
  async #sendNext(): Promise<number> {
    const { mintUrl, limiter, monotonicMs } = this.#deps;
    const reconnectInMs = this.#reconnectAtMs - monotonicMs();
    if (this.#findAvailableConnection() === null && reconnectInMs > 0) {
      return reconnectInMs;
    }
    const acquired = await limiter.acquire(mintUrl, 'socket');
    if (acquired.outcome === 'rate_limited') {
      return Math.max(acquired.retryAfterMs, this.#timing.batchIntervalMs);
    }
    const { permit } = acquired;
    const connection = this.#findAvailableConnection();
    if (this.#isClosed || this.#pending.size === 0) {
      permit.cancel();
      return 0;
    }
    if (connection === null) {
      return await this.#openConnection(permit);
    }
    const quoteIds = [...this.#pending].slice(-connection.remainingCapacity);
    for (const quoteId of quoteIds) {
      this.#pending.delete(quoteId);
    }
    void this.#sendSubscribe(connection, permit, quoteIds);
    if (limiter.hasLearnedLimit(mintUrl, 'socket')) {
      return this.#timing.rateLimitedBatchIntervalMs;
    }
    const isSlow = connection.subscriptionCount >= MESSAGES_BEFORE_SLOWDOWN;
    return this.#timing.batchIntervalMs * (isSlow ? SLOWDOWN_FACTOR : 1);
  }

  #findAvailableConnection(): SubscriptionConnection | null {
    const newest = this.#connections.at(-1);
    return newest?.isOpen === true && newest.remainingCapacity > 0 ? newest : null;
  }

  async #openConnection(permit: MintPermit): Promise<number> {
    const { mintUrl, connect, connectionSlots, monotonicMs, anomalies } = this.#deps;
    if (!connectionSlots.tryAcquire(mintUrl)) {
      permit.cancel();
      return this.#timing.maxReconnectDelayMs;
    }
    const connection = new SubscriptionConnection({
      socket: connect(`${mintUrl.replace(/^http/, 'ws')}/v1/ws`),
      timing: this.#timing,
      onObservation: (observation, isChange) => this.#handleObservation(observation, isChange),
      onUnsubscribedQuote: () => anomalies.report(mintUrl, 'unsolicited_notification'),
    });
    const openedAtMs = monotonicMs();
    const handledClose = connection.closed.then(() => this.#handleClosed(connection, openedAtMs));
    this.#connections.push(connection);
    if (this.#connections.length > MAX_CONNECTIONS) {
      this.#connections.shift()?.close();
    }
    const outcome = await connection.opened;
    reportOutcome(permit, outcome);
    this.#log('mint_socket_handshake', 'mint socket handshake finished', { handshake: outcome });
    // The close handler sets the reconnect delay, also if the mint closed the connection immediately.
    if (!connection.isOpen) {
      await handledClose;
    }
    return 0;
  }

  async #sendSubscribe(
    connection: SubscriptionConnection,
    permit: MintPermit,
    quoteIds: readonly string[],
  ): Promise<void> {
    const outcome = await connection.subscribe(quoteIds);
    reportOutcome(permit, outcome);
    const quotes = quoteIds.length;
    this.#log('mint_subscription', 'mint subscription finished', { quotes, outcome });
    if (outcome === 'rate_limited') {
      this.#requeue(quoteIds);
    } else if (outcome === 'no_response') {
      connection.close();
    }
  }

  /** Subscribes the quotes of a lost connection again. Those of a replaced connection are only polled. */
  #handleClosed(connection: SubscriptionConnection, openedAtMs: number): void {
    const { mintUrl, connectionSlots, anomalies, monotonicMs } = this.#deps;
    connectionSlots.release(mintUrl);
    if (this.#isClosed || !this.#connections.includes(connection)) {
      return;
    }
    this.#connections = this.#connections.filter((each) => each !== connection);
    const { initialReconnectDelayMs, maxReconnectDelayMs, stableAfterMs } = this.#timing;
    const nowMs = monotonicMs();
    this.#shortConnections = nowMs - openedAtMs >= stableAfterMs ? 1 : this.#shortConnections + 1;
    const backoffMs = initialReconnectDelayMs * 2 ** (this.#shortConnections - 1);
    // Jitter, so that many processes and mints do not reconnect at the same moment.
    let reconnectInMs = Math.min(backoffMs, maxReconnectDelayMs) * (0.5 + Math.random() / 2);
    if (connection.hasFlooded) {
      anomalies.report(mintUrl, 'socket_flood');
      reconnectInMs = this.#timing.floodCooldownMs;
    }
    this.#reconnectAtMs = Math.max(this.#reconnectAtMs, nowMs + reconnectInMs);
    this.#log('mint_socket_closed', 'mint socket closed', { reconnectInMs });
    this.#requeue(connection.listQuoteIds());
  }

  #handleObservation(observation: QuoteObservation, isChange: boolean): void {
    this.#isReliable ||= isChange;
    if (this.#watched.has(observation.quoteId) && !this.#isClosed) {
      this.#deps.onObservation(observation);
    }
  }

  /** Waits, but no longer than until {@link close}. */
  #pause(durationMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, Math.ceil(durationMs)).unref();
    this.#cancelPause = () => {
      clearTimeout(timer);
      resolve();
    };
    if (this.#isClosed || durationMs <= 0) {
      this.#cancelPause();
    }
    return promise;
  }

  /** Never logs quote ids: anyone who knows the id of an unlocked quote can mint the money. */
  #log(event: string, message: string, fields: object): void {
    this.#deps.log.debug({ event, mintUrl: this.#deps.mintUrl, ...fields }, message);
  }
}

function reportOutcome(permit: MintPermit, outcome: OpenOutcome | SubscribeOutcome): void {
  if (outcome === 'closed') {
    permit.cancel();
  } else if (outcome === 'rate_limited') {
    permit.complete({ outcome, retryAfterMs: null });
  } else if (outcome === 'failed' || outcome === 'no_response') {
    permit.complete({ outcome: 'unavailable', reason: `WebSocket: ${outcome}` });
  } else {
    permit.complete({ outcome: 'found' });
  }
}
