import type { Logger } from '../log.ts';
import type { WebSocketConnector } from '../net/guarded-websocket.ts';
import type { SiteSemaphore } from '../net/site-semaphore.ts';
import type { MintAnomalyCounter } from './mint-anomalies.ts';
import { SUBSCRIPTION_KINDS, type SubscriptionKind } from './mint-info.ts';
import type { MintPermit, MintRateLimiter } from './mint-rate-limiter.ts';
import type { QuoteObservation } from './quote-responses.ts';
import {
  type OpenOutcome,
  type SubscribeOutcome,
  SubscriptionConnection,
} from './subscription-connection.ts';

/** Older quotes are only polled. Fewer than a connection allows, which leaves room for new quotes. */
export const MAX_PENDING_QUOTES = 750;

/**
 * Limits WebSockets to mints that users chose. Each takes a file descriptor and 10 to 200 kB. Further mints are only
 * polled.
 */
export const MINT_CONNECTION_LIMITS = {
  max: 200,
  maxPerSite: 8,
  shouldShrinkSiteShare: true,
} as const;

/** Connections to one mint. When another connection is needed, it replaces the oldest. */
const MAX_CONNECTIONS = 3;

/** Durations in milliseconds. Tests shorten them. */
export const SUBSCRIPTION_TIMING = {
  /** A message waits until the mint has confirmed the previous one, but no longer than this time. */
  maxBatchIntervalMs: 500,
  /** The time between two messages to a mint with a learned rate limit. */
  rateLimitedBatchIntervalMs: 2_000,
  /** The delay before the first reconnect. It doubles with each further failure. */
  initialReconnectDelayMs: 1_000,
  /** Long, because any number of mints may fail forever. Polling notices payments meanwhile. */
  maxReconnectDelayMs: 10 * 60_000,
  /** The delay if all connection slots are in use. */
  slotRetryDelayMs: 60_000,
  /** A connection that lasted this long resets the reconnect delay. */
  stableAfterMs: 30_000,
  pingIntervalMs: 30_000,
  responseTimeoutMs: 15_000,
};

export type SubscriptionTiming = typeof SUBSCRIPTION_TIMING;

export interface MintSubscriptionDeps {
  mintUrl: string;
  /** The kind that the mint advertises. If the mint rejects it, the other kind is tried. */
  kind: SubscriptionKind;
  connect: WebSocketConnector;
  limiter: MintRateLimiter;
  /** All mints share these slots. */
  connectionSlots: SiteSemaphore;
  anomalies: Pick<MintAnomalyCounter, 'report'>;
  monotonicMs: () => number;
  log: Pick<Logger, 'debug'>;
  timing?: Partial<SubscriptionTiming>;
  /** The first observation of a quote may be outdated. */
  onObservation: (observation: QuoteObservation) => void;
  /** Called when the mint has confirmed a subscription of these quotes. */
  onSubscribed: (quoteIds: readonly string[]) => void;
  /** Called when the mint no longer reliably reports changes of these quotes. */
  onUncovered: (quoteIds: readonly string[]) => void;
}

/** Receives state changes of quotes over one mint's WebSocket (NUT-17), so that they are known before a poll. */
export class MintSubscription {
  readonly #deps: MintSubscriptionDeps;
  readonly #timing: SubscriptionTiming;
  readonly #watchedQuoteIds = new Set<string>();
  /** Watched quotes that are not subscribed yet. The newest is last. */
  #pendingQuoteIds = new Set<string>();
  /** Oldest first. New quotes are subscribed on the newest connection. */
  #connections: SubscriptionConnection[] = [];
  /** The loop that subscribes pending quotes; null while no quotes are pending. */
  #subscribeLoop: Promise<void> | null = null;
  #cancelPause: () => void = () => {};
  #reconnectAtMs = Number.NEGATIVE_INFINITY;
  /** Reconnects since the last connection that lasted `stableAfterMs`. */
  #reconnectAttempts = 0;
  #kind: SubscriptionKind;
  #hasConfirmedKind = false;
  #hasTriedOtherKind = false;
  /** False after polling found a change that the mint should have reported. */
  #isReliable = true;
  #isClosed = false;

  constructor(deps: MintSubscriptionDeps) {
    this.#deps = deps;
    this.#kind = deps.kind;
    this.#timing = { ...SUBSCRIPTION_TIMING, ...deps.timing };
  }

  subscribe(quoteIds: readonly string[]): void {
    this.#setPending([...this.#pendingQuoteIds, ...this.#excludeWatched(quoteIds)]);
  }

  /** Subscribes to older quotes (the newest last) as far as there is room besides new quotes. */
  subscribeOlder(quoteIds: readonly string[]): void {
    this.#setPending([...this.#excludeWatched(quoteIds), ...this.#pendingQuoteIds]);
  }

  /** Ignores these quotes from now on. Unsubscribing at the mint would cost a message and make no room. */
  ignore(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#watchedQuoteIds.delete(quoteId);
      this.#pendingQuoteIds.delete(quoteId);
    }
  }

  /** Whether the mint reliably reports changes of the quote, so that it can be polled less often. */
  isCovered(quoteId: string): boolean {
    return this.#isReliable && this.#connections.some((each) => each.isCovered(quoteId));
  }

  /**
   * Records that polling found changes of these quotes. If the mint should have reported one of these changes, it
   * counts as unreliable until it reports a change again.
   */
  recordPolledChanges(quoteIds: readonly string[]): void {
    if (quoteIds.some((quoteId) => this.isCovered(quoteId))) {
      this.#isReliable = false;
      this.#deps.onUncovered(this.#connections.flatMap((each) => each.listQuoteIds()));
    }
  }

  /** Closes all connections, and resolves when they are closed. Calls no callback from now on. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelPause();
    const connections = [...this.#connections];
    for (const connection of connections) {
      connection.close();
    }
    await Promise.all([this.#subscribeLoop, ...connections.map(({ closed }) => closed)]);
  }

  #excludeWatched(quoteIds: readonly string[]): string[] {
    return quoteIds.filter((quoteId) => !this.#watchedQuoteIds.has(quoteId));
  }

  #setPending(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#watchedQuoteIds.add(quoteId);
    }
    for (const quoteId of quoteIds.slice(0, -MAX_PENDING_QUOTES)) {
      this.#watchedQuoteIds.delete(quoteId);
    }
    this.#pendingQuoteIds = new Set(quoteIds.slice(-MAX_PENDING_QUOTES));
    if (this.#pendingQuoteIds.size > 0 && !this.#isClosed) {
      this.#subscribeLoop ??= this.#subscribePending();
    }
  }

  #requeue(quoteIds: readonly string[]): void {
    const stillWatched = quoteIds.filter((quoteId) => this.#watchedQuoteIds.has(quoteId));
    this.#setPending([...stillWatched, ...this.#pendingQuoteIds]);
  }

  async #subscribePending(): Promise<void> {
    while (this.#pendingQuoteIds.size > 0 && !this.#isClosed) {
      await this.#pause(await this.#sendNext());
    }
    this.#subscribeLoop = null;
  }

  /** Opens a connection or sends a subscription, if that is possible. Returns the delay before the next call. */
  async #sendNext(): Promise<number> {
    const { mintUrl, limiter, monotonicMs } = this.#deps;
    const reconnectInMs = this.#reconnectAtMs - monotonicMs();
    if (this.#findAvailableConnection() === null && reconnectInMs > 0) {
      return reconnectInMs;
    }
    const acquired = await limiter.acquire(mintUrl, 'socket');
    if (acquired.outcome === 'rate_limited') {
      return acquired.retryAfterMs;
    }
    const { permit } = acquired;
    const connection = this.#findAvailableConnection();
    if (this.#isClosed || this.#pendingQuoteIds.size === 0) {
      permit.cancel();
      return 0;
    }
    if (connection === null) {
      return await this.#openConnection(permit);
    }
    const quoteIds = [...this.#pendingQuoteIds].slice(-connection.remainingCapacity);
    for (const quoteId of quoteIds) {
      this.#pendingQuoteIds.delete(quoteId);
    }
    const sent = this.#sendSubscribe(connection, permit, quoteIds);
    if (limiter.hasLearnedLimit(mintUrl, 'socket')) {
      return this.#timing.rateLimitedBatchIntervalMs;
    }
    void sent.then(() => this.#cancelPause());
    return this.#timing.maxBatchIntervalMs;
  }

  #findAvailableConnection(): SubscriptionConnection | null {
    const newest = this.#connections.at(-1);
    return newest?.isOpen === true && newest.remainingCapacity > 0 ? newest : null;
  }

  async #openConnection(permit: MintPermit): Promise<number> {
    const { mintUrl, connect, connectionSlots, monotonicMs, anomalies } = this.#deps;
    if (!connectionSlots.tryAcquire(mintUrl)) {
      permit.cancel();
      return this.#timing.slotRetryDelayMs;
    }
    const connection = new SubscriptionConnection({
      socket: connect(`${mintUrl.replace(/^http/, 'ws')}/v1/ws`),
      timing: this.#timing,
      onObservation: (observation, isChange) => this.#handleObservation(observation, isChange),
      onUnsubscribedQuote: () => anomalies.report(mintUrl, 'unsolicited_notification'),
    });
    const openedAtMs = monotonicMs();
    const closeHandled = connection.closed.then(() => this.#handleClosed(connection, openedAtMs));
    this.#connections.push(connection);
    const outcome = await connection.opened;
    reportOutcome(permit, outcome);
    this.#log('mint_socket_handshake', 'mint socket handshake finished', { handshake: outcome });
    // Waits for the close handler, which sets the reconnect delay.
    if (!connection.isOpen) {
      await closeHandled;
    } else if (this.#connections.length > MAX_CONNECTIONS) {
      const oldest = this.#connections.shift() as SubscriptionConnection;
      oldest.close();
      this.#resubscribe(oldest);
    }
    return 0;
  }

  async #sendSubscribe(
    connection: SubscriptionConnection,
    permit: MintPermit,
    quoteIds: readonly string[],
  ): Promise<void> {
    const kind = this.#kind;
    const outcome = await connection.subscribe(quoteIds, kind);
    reportOutcome(permit, outcome);
    const quotes = quoteIds.length;
    this.#log('mint_subscription', 'mint subscription finished', { quotes, outcome });
    if (outcome === 'confirmed') {
      this.#hasConfirmedKind = true;
      this.#kind = kind;
      this.#deps.onSubscribed(quoteIds);
    } else if (outcome === 'rate_limited') {
      this.#requeue(quoteIds);
    } else if (outcome === 'no_response') {
      this.#tryOtherKind(kind);
      connection.close();
    } else if (outcome === 'rejected' && this.#tryOtherKind(kind)) {
      this.#requeue(quoteIds);
    }
  }

  /**
   * Uses the other kind from now on, unless the mint has confirmed a kind. cdk-mintd does not respond to unknown kinds.
   *
   * @returns whether the other kind has not been tried before
   */
  #tryOtherKind(failedKind: SubscriptionKind): boolean {
    if (this.#hasConfirmedKind) {
      return false;
    }
    const isUntried = !this.#hasTriedOtherKind;
    this.#hasTriedOtherKind = true;
    this.#kind = SUBSCRIPTION_KINDS.find((kind) => kind !== failedKind) ?? failedKind;
    return isUntried;
  }

  /** Subscribes the newest quotes of a closed connection again. The others are only polled. */
  #resubscribe(connection: SubscriptionConnection): void {
    const quoteIds = connection.listQuoteIds();
    this.#requeue(quoteIds);
    this.#deps.onUncovered(quoteIds);
  }

  /** Subscribes the quotes of a lost connection again. */
  #handleClosed(connection: SubscriptionConnection, openedAtMs: number): void {
    const { mintUrl, connectionSlots, monotonicMs } = this.#deps;
    connectionSlots.release(mintUrl);
    if (this.#isClosed || !this.#connections.includes(connection)) {
      return;
    }
    this.#connections = this.#connections.filter((each) => each !== connection);
    const { initialReconnectDelayMs, maxReconnectDelayMs, stableAfterMs } = this.#timing;
    const isStable = monotonicMs() - openedAtMs >= stableAfterMs;
    this.#reconnectAttempts = isStable ? 1 : this.#reconnectAttempts + 1;
    const backoffMs = initialReconnectDelayMs * 2 ** (this.#reconnectAttempts - 1);
    // Jitter prevents many processes from reconnecting at the same moment.
    const reconnectInMs = Math.min(backoffMs, maxReconnectDelayMs) * (0.5 + Math.random() / 2);
    this.#reconnectAtMs = Math.max(this.#reconnectAtMs, monotonicMs() + reconnectInMs);
    this.#log('mint_socket_closed', 'mint socket closed', { reconnectInMs });
    this.#resubscribe(connection);
  }

  #handleObservation(observation: QuoteObservation, isChange: boolean): void {
    this.#isReliable ||= isChange;
    if (this.#watchedQuoteIds.has(observation.quoteId) && !this.#isClosed) {
      this.#deps.onObservation(observation);
    }
  }

  /** Waits until the time is over or {@link close} is called. */
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

  /** Fields must not contain quote ids: anyone who knows the id of an unlocked quote can mint its ecash. */
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
