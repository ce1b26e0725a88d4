import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';
import { OutageTracker } from '../outage-tracker.ts';
import { MAX_CACHED_MINTS, MAX_WAITING_CLIENTS, type RateLimiterTiming } from './limits.ts';
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
  /** Of the client on whose behalf it is sent. Address groups take turns. */
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
  timing: RateLimiterTiming;
  onRequestFinished?: ((request: FinishedMintRequest) => void) | undefined;
  log: Pick<Logger, 'info' | 'warn'>;
}

interface Waiter {
  addressGroup: string | null;
  grant: () => void;
}

type RouteState = ReturnType<typeof createRouteState>;

const MIN_RETRY_AFTER_MS = 1_000;

/** Queues the requests to mints and the messages on their WebSockets. {@link RouteRateLimiter} has the rules. */
export class MintRateLimiter {
  readonly #context: MintRateLimiterOptions;
  readonly #mints = new LRUCache<string, Map<MintRoute, RouteState>>({
    max: MAX_CACHED_MINTS,
    memoMethod: () => new Map(),
  });

  constructor(context: MintRateLimiterOptions) {
    this.#context = context;
  }

  get payerMaxWaitMs(): number {
    return this.#context.timing.payerMaxWaitMs;
  }

  /** Of the clients that wait, the one whose address group got fewest responses lately comes first. */
  async acquire(mintUrl: string, route: MintRoute, wait: RequestWait = {}): Promise<AcquireResult> {
    const { addressGroup = null, maxWaitMs = 0 } = wait;
    const routes = this.#mints.memo(mintUrl);
    const create = () => createRouteState(mintUrl, route, this.#context);
    const state = routes.getOrInsertComputed(route, create);
    const nowMs = this.#context.monotonicMs();
    state.limiter.recordClient(nowMs, addressGroup);
    const waitMs = state.limiter.getWaitMs(nowMs, addressGroup);
    if (waitMs === 0) {
      return { outcome: 'granted', slot: this.#grant(state, addressGroup) };
    }
    const canWait = maxWaitMs > 0 && (waitMs <= maxWaitMs || waitMs === Number.POSITIVE_INFINITY);
    const slot = canWait ? await this.#waitForSlot(state, addressGroup, maxWaitMs) : null;
    if (slot !== null) {
      return { outcome: 'granted', slot };
    }
    const retryAfterMs = this.getWaitMs(mintUrl, route, addressGroup);
    return { outcome: 'rate_limited', retryAfterMs: Math.max(MIN_RETRY_AFTER_MS, retryAfterMs) };
  }

  getWaitMs(mintUrl: string, route: MintRoute, addressGroup: string | null): number {
    const state = this.#mints.peek(mintUrl)?.get(route);
    const waitMs = state?.limiter.getWaitMs(this.#context.monotonicMs(), addressGroup) ?? 0;
    // An infinite wait ends when a pending request does, usually within a second.
    return Number.isFinite(waitMs) ? waitMs : MIN_RETRY_AFTER_MS;
  }

  /** If so, requests should be larger and rarer. */
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
      // Clears the timer if no client waits any more. It would keep an operator's command running.
      this.#serveWaiters(state);
    }, maxWaitMs);
    waiters.add(waiter);
    this.#serveWaiters(state);
    return promise;
  }

  #grant(state: RouteState, addressGroup: string | null): RequestSlot {
    const { mintUrl, route, limiter } = state;
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
        this.#logChange(state, result, hadRefused);
      },
      [Symbol.dispose]: () => {
        limiter.recordEnd();
        this.#serveWaiters(state);
      },
    };
  }

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
    const nowMs = this.#context.monotonicMs();
    const [first] = waiters;
    const waitMs = limiter.getWaitMs(nowMs);
    if (first === undefined || waitMs > 0) {
      return first && { waiter: first, waitMs };
    }
    const accepted = Map.groupBy(limiter.listAccepted(nowMs), ({ addressGroup }) => addressGroup);
    const firstOfGroups = [...Map.groupBy(waiters, ({ addressGroup }) => addressGroup).values()]
      .flatMap(([waiter]) => waiter ?? [])
      .map((waiter) => ({
        waiter,
        waitMs: limiter.getWaitMs(nowMs, waiter.addressGroup),
        accepted: accepted.get(waiter.addressGroup)?.length ?? 0,
      }));
    return firstOfGroups.sort((a, b) => a.waitMs - b.waitMs || a.accepted - b.accepted)[0];
  }

  #logChange(state: RouteState, result: RequestResult, hadRefused: boolean): void {
    const { mintUrl, route, limiter, outage } = state;
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

function createRouteState(
  mintUrl: string,
  route: MintRoute,
  { timing, monotonicMs }: MintRateLimiterOptions,
) {
  const limiter = new RouteRateLimiter(timing);
  const outage = new OutageTracker(monotonicMs);
  return {
    mintUrl,
    route,
    limiter,
    waiters: new Set<Waiter>(),
    timer: undefined as NodeJS.Timeout | undefined,
    outage,
  };
}
