import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';
import { OutageTracker } from '../outage-tracker.ts';
import {
  MAX_TRACKED_MINTS,
  MAX_WAITING_CLIENTS,
  RATE_LIMITER_TIMING,
  type RateLimiterTiming,
} from './limits.ts';
import { type RequestResult, RouteRateLimiter } from './route-rate-limiter.ts';

/** Mints count requests per route, so each route of a mint has its own limit. */
export type MintRoute =
  // Mint quotes: create one, read one, check a batch.
  | 'create'
  | 'read'
  | 'check'
  | 'info'
  // Keysets and their keys.
  | 'keys'
  // Proofs: swap them, check their state, restore them.
  | 'swap'
  | 'state'
  | 'restore'
  // Open a WebSocket, and send a message on it.
  | 'socket';

/** The permission to send one request, which counts as in flight until the slot is disposed of. */
export interface RequestSlot extends Disposable {
  /** Call this if the request was sent and this process did not abort it. */
  finish(result: RequestResult): void;
}

export type AcquireResult =
  | { outcome: 'granted'; slot: RequestSlot }
  | { outcome: 'rate_limited'; retryAfterMs: number };

export interface FinishedMintRequest {
  mintUrl: string;
  route: MintRoute;
  outcome: RequestResult['outcome'];
  durationMs: number;
}

export interface MintRateLimiterOptions {
  monotonicMs: () => number;
  timing?: Partial<RateLimiterTiming>;
  onRequestFinished?: (request: FinishedMintRequest) => void;
  log: Pick<Logger, 'info' | 'warn'>;
}

interface Waiter {
  addressGroup: string | null;
  grant: () => void;
}

interface RouteState {
  mintUrl: string;
  route: MintRoute;
  limiter: RouteRateLimiter;
  /** In order of arrival. */
  waiters: Set<Waiter>;
  /** Serves the waiters when the next request may be sent. */
  timer: NodeJS.Timeout | undefined;
  outage: OutageTracker;
}

const MIN_RETRY_AFTER_MS = 1_000;

/**
 * Decides when a mint may be asked. Each request, and each message on a WebSocket, needs a slot.
 * {@link RouteRateLimiter} has the rules; this class queues the clients that wait.
 */
export class MintRateLimiter {
  readonly #deps: MintRateLimiterOptions;
  readonly #timing: RateLimiterTiming;
  readonly #mints = new LRUCache<string, Map<MintRoute, RouteState>>({ max: MAX_TRACKED_MINTS });

  constructor(deps: MintRateLimiterOptions) {
    this.#deps = deps;
    this.#timing = { ...RATE_LIMITER_TIMING, ...deps.timing };
  }

  get payerMaxWaitMs(): number {
    return this.#timing.payerMaxWaitMs;
  }

  /**
   * Acquires the permission to send one request. Of the clients that wait, the one whose address group got fewest
   * responses lately comes first.
   *
   * @param options.maxWaitMs by default 0: the client does not wait
   */
  async acquire(
    mintUrl: string,
    route: MintRoute,
    options: { addressGroup?: string | null | undefined; maxWaitMs?: number | undefined } = {},
  ): Promise<AcquireResult> {
    const { addressGroup = null, maxWaitMs = 0 } = options;
    const state = this.#getRoute(mintUrl, route);
    const nowMs = this.#deps.monotonicMs();
    state.limiter.recordClient(nowMs, addressGroup);
    const waitMs = state.limiter.getWaitMs(nowMs, addressGroup);
    if (waitMs === 0) {
      return { outcome: 'granted', slot: this.#grant(state, addressGroup) };
    }
    const canWait = maxWaitMs > 0 && (waitMs <= maxWaitMs || waitMs === Number.POSITIVE_INFINITY);
    const slot = canWait ? await this.#waitForSlot(state, addressGroup, maxWaitMs) : null;
    return slot === null
      ? { outcome: 'rate_limited', retryAfterMs: this.#getRetryAfterMs(state, addressGroup) }
      : { outcome: 'granted', slot };
  }

  /** Returns how long a request would have to wait. */
  getWaitMs(mintUrl: string, route: MintRoute, addressGroup: string | null = null): number {
    const state = this.#mints.peek(mintUrl)?.get(route);
    const waitMs = state?.limiter.getWaitMs(this.#deps.monotonicMs(), addressGroup) ?? 0;
    return Number.isFinite(waitMs) ? waitMs : MIN_RETRY_AFTER_MS;
  }

  /** Whether the mint limits requests on this route, so that requests should be larger and rarer. */
  hasRefusedLately(mintUrl: string, route: MintRoute): boolean {
    return this.#mints.peek(mintUrl)?.get(route)?.limiter.hasRefusedLately ?? false;
  }

  /** Returns the state of the routes that this process has used. */
  listRoutes(mintUrl: string): { route: MintRoute; pauseMs: number; hasRefusedLately: boolean }[] {
    const nowMs = this.#deps.monotonicMs();
    return [...(this.#mints.peek(mintUrl)?.values() ?? [])].map(({ route, limiter }) => ({
      route,
      pauseMs: limiter.getPauseMs(nowMs),
      hasRefusedLately: limiter.hasRefusedLately,
    }));
  }

  #getRoute(mintUrl: string, route: MintRoute): RouteState {
    let routes = this.#mints.get(mintUrl);
    if (routes === undefined) {
      routes = new Map();
      this.#mints.set(mintUrl, routes);
    }
    return routes.getOrInsertComputed(route, () => ({
      mintUrl,
      route,
      limiter: new RouteRateLimiter(this.#timing),
      waiters: new Set(),
      timer: undefined,
      outage: new OutageTracker(this.#deps.monotonicMs),
    }));
  }

  #getRetryAfterMs({ limiter }: RouteState, addressGroup: string | null): number {
    const waitMs = limiter.getWaitMs(this.#deps.monotonicMs(), addressGroup);
    // An infinite wait ends when a pending request does, usually within a second.
    return Math.max(MIN_RETRY_AFTER_MS, Number.isFinite(waitMs) ? waitMs : 0);
  }

  /** Resolves with null if no slot is free in time, or too many clients wait. */
  #waitForSlot(
    state: RouteState,
    addressGroup: string | null,
    maxWaitMs: number,
  ): Promise<RequestSlot | null> {
    const { waiters } = state;
    const byGroup = Map.groupBy(waiters, (waiter) => waiter.addressGroup);
    const ofGroup = byGroup.get(addressGroup)?.length ?? 0;
    // However many clients of other groups wait, each group has room.
    if (ofGroup >= MAX_WAITING_CLIENTS / (byGroup.size + 1)) {
      return Promise.resolve(null);
    }
    const { promise, resolve } = Promise.withResolvers<RequestSlot | null>();
    const end = (slot: RequestSlot | null) => {
      clearTimeout(timeout);
      waiters.delete(waiter);
      resolve(slot);
    };
    const waiter: Waiter = { addressGroup, grant: () => end(this.#grant(state, addressGroup)) };
    const timeout = setTimeout(() => {
      end(null);
      // Clears the timer if nobody waits any more. It would keep an operator's command running.
      this.#serveWaiters(state);
    }, maxWaitMs);
    waiters.add(waiter);
    this.#serveWaiters(state);
    return promise;
  }

  #grant(state: RouteState, addressGroup: string | null): RequestSlot {
    const { mintUrl, route, limiter } = state;
    const sentAtMs = this.#deps.monotonicMs();
    limiter.recordSent();
    return {
      finish: (result) => {
        const nowMs = this.#deps.monotonicMs();
        const hadRefused = limiter.hasRefusedLately;
        limiter.recordResult({ sentAtMs, addressGroup }, result, nowMs);
        const durationMs = nowMs - sentAtMs;
        this.#deps.onRequestFinished?.({ mintUrl, route, outcome: result.outcome, durationMs });
        this.#logChange(state, result, hadRefused);
      },
      [Symbol.dispose]: () => {
        limiter.recordEnd();
        this.#serveWaiters(state);
      },
    };
  }

  /** Grants the slots that are free, and calls itself again when the next one is. */
  #serveWaiters(state: RouteState): void {
    clearTimeout(state.timer);
    let next = this.#findNext(state);
    while (next?.waitMs === 0) {
      next.waiter.grant();
      next = this.#findNext(state);
    }
    if (next !== undefined && Number.isFinite(next.waitMs)) {
      state.timer = setTimeout(() => this.#serveWaiters(state), Math.ceil(next.waitMs));
    }
  }

  /** Considers the first client of each address group. The others wait at least as long. */
  #findNext({ limiter, waiters }: RouteState): { waiter: Waiter; waitMs: number } | undefined {
    const nowMs = this.#deps.monotonicMs();
    const [first] = waiters;
    const waitMs = limiter.getWaitMs(nowMs);
    if (first === undefined || waitMs > 0) {
      return first && { waiter: first, waitMs };
    }
    const firstOfGroups = [...Map.groupBy(waiters, ({ addressGroup }) => addressGroup).values()]
      .flatMap(([waiter]) => waiter ?? [])
      .map((waiter) => ({
        waiter,
        waitMs: limiter.getWaitMs(nowMs, waiter.addressGroup),
        accepted: limiter.countAccepted(nowMs, waiter.addressGroup),
      }));
    return firstOfGroups.sort((a, b) => a.waitMs - b.waitMs || a.accepted - b.accepted)[0];
  }

  /** Logs when a route starts to fail or to refuse requests, and when it has recovered. */
  #logChange(state: RouteState, result: RequestResult, hadRefused: boolean): void {
    const { mintUrl, route, limiter, outage } = state;
    const { log } = this.#deps;
    if (result.outcome === 'unavailable') {
      if (outage.recordFailure()) {
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
