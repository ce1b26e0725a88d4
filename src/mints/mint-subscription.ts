import { computeBackoffMs } from '../backoff.ts';
import type { Logger } from '../log.ts';
import type { WebSocketConnector } from '../net/guarded-websocket.ts';
import type { SiteSemaphore } from '../net/site-semaphore.ts';
import {
  MAX_CONNECTIONS_PER_MINT,
  SUBSCRIPTION_TIMING,
  type SubscriptionTiming,
} from './limits.ts';
import type { SubscriptionKind } from './mint-info.ts';
import type { MintRateLimiter, RequestSlot } from './mint-rate-limiter.ts';
import type { QuoteObservation } from './quote-responses.ts';
import {
  type OpenOutcome,
  type SubscribeOutcome,
  SubscriptionConnection,
} from './subscription-connection.ts';

/** The quotes of a mint. `watcher/watched-quotes.ts` implements it. */
export interface SubscribableQuotes {
  hasUnsubscribed(): boolean;
  /** Takes at most `max` of the newest quotes that have no subscription. The newest is last. */
  takeUnsubscribed(max: number): string[];
  handleSubscribed(quoteIds: readonly string[]): void;
  handleUnsubscribed(quoteIds: readonly string[]): void;
  /** The first report of a quote may be outdated. */
  handleNotification(observation: QuoteObservation): void;
}

interface SubscriptionContext {
  mintUrl: string;
  kind: SubscriptionKind;
  quotes: SubscribableQuotes;
  connect: WebSocketConnector;
  limiter: MintRateLimiter;
  connectionSlots: SiteSemaphore;
  monotonicMs: () => number;
  log: Pick<Logger, 'debug'>;
}

/** Receives state changes of quotes over one mint's WebSocket (NUT-17), so that they are known before a poll. */
export class MintSubscription {
  readonly #context: SubscriptionContext;
  readonly #timing: SubscriptionTiming;
  /** Oldest first. New quotes are subscribed on the newest connection. */
  #connections: SubscriptionConnection[] = [];
  /** The loop that subscribes quotes; null while all are subscribed. */
  #subscribing: Promise<void> | null = null;
  #cancelPause: () => void = () => {};
  #reconnectAtMs = Number.NEGATIVE_INFINITY;
  /** Reconnects since the last connection that lasted `stableAfterMs`. */
  #reconnectAttempts = 0;
  #isClosed = false;

  constructor(context: SubscriptionContext, timing = SUBSCRIPTION_TIMING) {
    this.#context = context;
    this.#timing = timing;
  }

  /** Starts to subscribe the quotes without a subscription, if there are any. */
  subscribePending(): void {
    if (!this.#isClosed && this.#context.quotes.hasUnsubscribed()) {
      this.#subscribing ??= this.#subscribeAll();
    }
  }

  /** Stops all reports. Resolves when all connections are closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelPause();
    const connections = [...this.#connections];
    for (const connection of connections) {
      connection.close();
    }
    await Promise.all([this.#subscribing, ...connections.map(({ closed }) => closed)]);
  }

  async #subscribeAll(): Promise<void> {
    while (this.#context.quotes.hasUnsubscribed() && !this.#isClosed) {
      const delayMs = await this.#connectOrSubscribe();
      await this.#pause(delayMs);
    }
    this.#subscribing = null;
  }

  /** Opens a connection or sends one subscription, if possible now. Returns the delay in ms before the next call. */
  async #connectOrSubscribe(): Promise<number> {
    const { mintUrl, quotes, limiter, monotonicMs } = this.#context;
    const reconnectInMs = this.#reconnectAtMs - monotonicMs();
    if (this.#findAvailableConnection() === null && reconnectInMs > 0) {
      return reconnectInMs;
    }
    const acquired = await limiter.acquire(mintUrl, 'socket');
    if (acquired.outcome === 'rate_limited') {
      return acquired.retryAfterMs;
    }
    const { slot } = acquired;
    const connection = this.#findAvailableConnection();
    if (this.#isClosed || !quotes.hasUnsubscribed()) {
      slot[Symbol.dispose]();
      return 0;
    }
    if (connection === null) {
      return await this.#openConnection(slot);
    }
    const quoteIds = quotes.takeUnsubscribed(connection.remainingCapacity);
    const confirmed = this.#sendSubscribe(connection, slot, quoteIds);
    // The delay collects new quotes for the next message.
    if (limiter.hasRefusedLately(mintUrl, 'socket')) {
      return this.#timing.rateLimitedBatchIntervalMs;
    }
    void confirmed.then(() => this.#cancelPause());
    return this.#timing.maxBatchIntervalMs;
  }

  #findAvailableConnection(): SubscriptionConnection | null {
    const newest = this.#connections.at(-1);
    return newest?.isOpen === true && newest.remainingCapacity > 0 ? newest : null;
  }

  /** Returns the delay in ms before the next call of {@link #connectOrSubscribe}. */
  async #openConnection(slot: RequestSlot): Promise<number> {
    const { mintUrl, quotes, connect, connectionSlots, monotonicMs } = this.#context;
    if (!connectionSlots.tryAcquire(mintUrl)) {
      slot[Symbol.dispose]();
      return this.#timing.slotRetryDelayMs;
    }
    const connection = new SubscriptionConnection({
      socket: connect(`${mintUrl.replace(/^http/, 'ws')}/v1/ws`),
      timing: this.#timing,
      onNotification: (observation) => {
        if (!this.#isClosed) {
          quotes.handleNotification(observation);
        }
      },
    });
    const openedAtMs = monotonicMs();
    const closeHandled = connection.closed.then(() => this.#handleClosed(connection, openedAtMs));
    this.#connections.push(connection);
    const outcome = await connection.opened;
    finishSlot(slot, outcome);
    this.#log('mint_socket_handshake', 'mint socket handshake finished', { handshake: outcome });
    if (!connection.isOpen) {
      // The close handler sets the time of the next connection.
      await closeHandled;
    } else if (this.#connections.length > MAX_CONNECTIONS_PER_MINT) {
      const oldest = this.#connections.shift() as SubscriptionConnection;
      oldest.close();
      quotes.handleUnsubscribed(oldest.listQuoteIds());
    }
    return 0;
  }

  async #sendSubscribe(
    connection: SubscriptionConnection,
    slot: RequestSlot,
    quoteIds: readonly string[],
  ): Promise<void> {
    const { kind, quotes } = this.#context;
    const outcome = await connection.subscribe(quoteIds, kind);
    finishSlot(slot, outcome);
    this.#log('mint_subscription', 'mint subscription finished', {
      quotes: quoteIds.length,
      outcome,
    });
    if (outcome === 'confirmed') {
      quotes.handleSubscribed(quoteIds);
    } else if (outcome === 'rate_limited') {
      quotes.handleUnsubscribed(quoteIds);
    } else if (outcome === 'no_response') {
      connection.close();
    }
    this.subscribePending();
  }

  #handleClosed(connection: SubscriptionConnection, openedAtMs: number): void {
    const { mintUrl, quotes, connectionSlots, monotonicMs } = this.#context;
    connectionSlots.release(mintUrl);
    if (this.#isClosed || !this.#connections.includes(connection)) {
      return;
    }
    this.#connections = this.#connections.filter((other) => other !== connection);
    const { initialReconnectDelayMs: initialMs, maxReconnectDelayMs: maxMs } = this.#timing;
    const isStable = monotonicMs() - openedAtMs >= this.#timing.stableAfterMs;
    this.#reconnectAttempts = isStable ? 1 : this.#reconnectAttempts + 1;
    const backoffMs = computeBackoffMs(this.#reconnectAttempts, { initialMs, maxMs });
    // Jitter prevents many processes from reconnecting at the same moment.
    const reconnectInMs = backoffMs * (0.5 + Math.random() / 2);
    this.#reconnectAtMs = Math.max(this.#reconnectAtMs, monotonicMs() + reconnectInMs);
    this.#log('mint_socket_closed', 'mint socket closed', { reconnectInMs });
    quotes.handleUnsubscribed(connection.listQuoteIds());
    this.subscribePending();
  }

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
    this.#context.log.debug({ event, mintUrl: this.#context.mintUrl, ...fields }, message);
  }
}

/** Releases the slot, and reports to the rate limiter how the mint has answered. */
function finishSlot(slot: RequestSlot, outcome: OpenOutcome | SubscribeOutcome): void {
  if (outcome === 'rate_limited') {
    slot.finish({ outcome, retryAfterMs: null });
  } else if (outcome === 'failed' || outcome === 'no_response') {
    slot.finish({ outcome: 'unavailable', reason: 'WebSocket failed' });
  } else if (outcome !== 'closed') {
    slot.finish({ outcome: 'found' });
  }
  slot[Symbol.dispose]();
}
