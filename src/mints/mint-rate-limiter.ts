import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';
import { OutageTracker } from '../outage-tracker.ts';
import { MAX_CACHED_MINTS, MAX_WAITING_CLIENTS } from './limits.ts';
import { type RequestResult, RouteRateLimiter } from './route-rate-limiter.ts';

/** Mints count requests per route, so each route of a mint has its own limit. */
export type MintRoute =
  | 'create'
  | 'read'
  | 'check'
  | 'info'
  | 'keys'
  | 'swap'
  | 'state'
  | 'restore'
  | 'socket';

/** The permission to send one request, which counts as in flight until the slot is disposed of. */
export interface RequestSlot extends Disposable {
  /** Call this if the request was sent and this process did not abort it. */
  finish(result: RequestResult): void;
}

export type AcquireResult =
  | { outcome: 'granted'; slot: RequestSlot }
  | { outcome: 'rate_limited'; retryAfterMs: number };

/** How a request waits for the mint's rate limit. By default, it does not wait. */
export interface RequestWait {
  maxWaitMs?: number | undefined;
  /** The group of the client who needs the response. Groups take turns. */
  addressGroup?: string | undefined;
}

export interface FinishedMintRequest {
  mintUrl: string;
  route: MintRoute;
  outcome: RequestResult['outcome'];
  durationMs: number;
}

export interface MintRateLimiterOptions {
  monotonicMs: () => number;
  onRequestFinished?: ((request: FinishedMintRequest) => void) | undefined;
  log: Pick<Logger, 'info' | 'warn'>;
}

interface Waiter {
  addressGroup: string | null;
  grant: () => void;
}

interface RouteQueue {
  mintUrl: string;
  route: MintRoute;
  limiter: RouteRateLimiter;
  outage: OutageTracker;
  waiters: Set<Waiter>;
  /** Ends when the next waiter gets a slot. */
  timer?: NodeJS.Timeout;
}

const MIN_RETRY_AFTER_MS = 1_000;

/** Queues requests to mints and messages on their WebSockets. {@link RouteRateLimiter} decides when one is sent. */
export class MintRateLimiter {
  readonly #context: MintRateLimiterOptions;
  readonly #mints = new LRUCache<string, Map<MintRoute, RouteQueue>>({
    max: MAX_CACHED_MINTS,
    memoMethod: () => new Map(),
  });

  constructor(context: MintRateLimiterOptions) {
    this.#context = context;
  }

  /** Grants a slot, perhaps after a wait. Prefers the client whose address group got the fewest responses lately. */
  async acquire(mintUrl: string, route: MintRoute, wait: RequestWait = {}): Promise<AcquireResult> {
    const { addressGroup = null, maxWaitMs = 0 } = wait;
    const routes = this.#mints.memo(mintUrl);
    const queue = routes.getOrInsertComputed(route, () => this.#createQueue(mintUrl, route));
    const nowMs = this.#context.monotonicMs();
    queue.limiter.recordClient(nowMs, addressGroup);
    const waitMs = queue.limiter.getWaitMs(nowMs, addressGroup);
    if (waitMs === 0) {
      return { outcome: 'granted', slot: this.#grant(queue, addressGroup) };
    }
    // An infinite wait may end at any moment.
    const isTooLong = Number.isFinite(waitMs) && waitMs > maxWaitMs;
    const slot =
      maxWaitMs > 0 && !isTooLong ? await this.#waitForSlot(queue, addressGroup, maxWaitMs) : null;
    if (slot !== null) {
      return { outcome: 'granted', slot };
    }
    const retryAfterMs = this.getWaitMs(mintUrl, route, addressGroup);
    return { outcome: 'rate_limited', retryAfterMs: Math.max(MIN_RETRY_AFTER_MS, retryAfterMs) };
  }

  getWaitMs(mintUrl: string, route: MintRoute, addressGroup: string | null): number {
    const queue = this.#mints.peek(mintUrl)?.get(route);
    const waitMs = queue?.limiter.getWaitMs(this.#context.monotonicMs(), addressGroup) ?? 0;
    // An infinite wait ends when a pending request does, usually within a second.
    return Number.isFinite(waitMs) ? waitMs : MIN_RETRY_AFTER_MS;
  }

  /** Returns whether requests should be larger and rarer, because the mint has answered some with 429. */
  hasRefusedLately(mintUrl: string, route: MintRoute): boolean {
    return this.#mints.peek(mintUrl)?.get(route)?.limiter.hasRefusedLately ?? false;
  }

  listRoutes(mintUrl: string): { route: MintRoute; pauseMs: number; hasRefusedLately: boolean }[] {
    const nowMs = this.#context.monotonicMs();
    return [...(this.#mints.peek(mintUrl)?.values() ?? [])].map(({ route, limiter }) => ({
      route,
      pauseMs: limiter.getPauseMs(nowMs),
      hasRefusedLately: limiter.hasRefusedLately,
    }));
  }

  /** Resolves with null if no slot is free in time, or too many clients wait. */
  #waitForSlot(
    queue: RouteQueue,
    addressGroup: string | null,
    maxWaitMs: number,
  ): Promise<RequestSlot | null> {
    const { waiters } = queue;
    const waitersByGroup = Map.groupBy(waiters, (waiter) => waiter.addressGroup);
    const waitersOfGroup = waitersByGroup.get(addressGroup) ?? [];
    // However many clients of other groups wait, each group has room.
    if (waitersOfGroup.length >= MAX_WAITING_CLIENTS / (waitersByGroup.size + 1)) {
      return Promise.resolve(null);
    }
    const { promise, resolve } = Promise.withResolvers<RequestSlot | null>();
    const end = (slot: RequestSlot | null) => {
      clearTimeout(timeout);
      waiters.delete(waiter);
      resolve(slot);
    };
    const waiter: Waiter = { addressGroup, grant: () => end(this.#grant(queue, addressGroup)) };
    const timeout = setTimeout(() => {
      end(null);
      // Clears the timer of the queue if no client waits any more. It would keep an operator's command running.
      this.#serveWaiters(queue);
    }, maxWaitMs);
    waiters.add(waiter);
    this.#serveWaiters(queue);
    return promise;
  }

  #grant(queue: RouteQueue, addressGroup: string | null): RequestSlot {
    const { mintUrl, route, limiter } = queue;
    const { monotonicMs, onRequestFinished } = this.#context;
    const sentAtMs = monotonicMs();
    limiter.recordSent();
    return {
      finish: (result) => {
        const nowMs = monotonicMs();
        const hadRefused = limiter.hasRefusedLately;
        limiter.recordResult({ sentAtMs, addressGroup }, result, nowMs);
        const durationMs = nowMs - sentAtMs;
        onRequestFinished?.({ mintUrl, route, outcome: result.outcome, durationMs });
        this.#logChange(queue, result, hadRefused);
      },
      [Symbol.dispose]: () => {
        limiter.recordEnd();
        this.#serveWaiters(queue);
      },
    };
  }

  #createQueue(mintUrl: string, route: MintRoute): RouteQueue {
    const limiter = new RouteRateLimiter();
    const outage = new OutageTracker(this.#context.monotonicMs);
    return { mintUrl, route, limiter, outage, waiters: new Set() };
  }

  #serveWaiters(queue: RouteQueue): void {
    clearTimeout(queue.timer);
    let next = this.#findNext(queue);
    while (next?.waitMs === 0) {
      next.waiter.grant();
      next = this.#findNext(queue);
    }
    if (next !== undefined && Number.isFinite(next.waitMs)) {
      queue.timer = setTimeout(() => this.#serveWaiters(queue), Math.ceil(next.waitMs));
    }
  }

  /** Finds whose turn is next, among the first of each address group: the others wait at least as long. */
  #findNext({ limiter, waiters }: RouteQueue): { waiter: Waiter; waitMs: number } | undefined {
    const nowMs = this.#context.monotonicMs();
    const [firstWaiter] = waiters;
    if (firstWaiter === undefined) {
      return undefined;
    }
    const routeWaitMs = limiter.getWaitMs(nowMs);
    if (routeWaitMs > 0) {
      return { waiter: firstWaiter, waitMs: routeWaitMs };
    }
    const accepted = Map.groupBy(limiter.listAccepted(nowMs), ({ addressGroup }) => addressGroup);
    const firstOfGroups = new Map<string | null, Waiter>();
    for (const waiter of waiters) {
      firstOfGroups.getOrInsert(waiter.addressGroup, waiter);
    }
    const candidates = [...firstOfGroups].map(([addressGroup, waiter]) => ({
      waiter,
      waitMs: limiter.getWaitMs(nowMs, addressGroup),
      accepted: accepted.get(addressGroup)?.length ?? 0,
    }));
    return candidates.sort((a, b) => a.waitMs - b.waitMs || a.accepted - b.accepted)[0];
  }

  #logChange(queue: RouteQueue, result: RequestResult, hadRefused: boolean): void {
    const { mintUrl, route, limiter, outage } = queue;
    const { log } = this.#context;
    if (result.outcome === 'unavailable') {
      const beginsOutage = outage.recordFailure();
      if (beginsOutage) {
        const { reason, status } = result;
        const event = 'mint_unavailable';
        log.warn({ event, mintUrl, route, reason, status }, 'requests to the mint fail; retrying');
      }
    } else if (result.outcome !== 'rate_limited' && outage.recordSuccess()) {
      const event = 'mint_available';
      log.info({ event, mintUrl, route }, 'requests to the mint succeed again');
    }
    if (limiter.hasRefusedLately && !hadRefused) {
      const event = 'mint_rate_limited';
      log.info({ event, mintUrl, route }, 'mint limits requests; sending fewer');
    } else if (hadRefused && !limiter.hasRefusedLately) {
      const event = 'mint_rate_limit_lifted';
      log.info({ event, mintUrl, route }, 'mint no longer limits requests');
    }
  }
}
