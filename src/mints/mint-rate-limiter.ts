import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { KeyedCounter } from '../keyed-counter.ts';
import type { Logger } from '../log.ts';
import { OutageTracker } from '../outage-tracker.ts';
import {
  type LearnedLimit,
  learnedLimitSchema,
  RATE_LIMITER_TIMING,
  type RateLimiterTiming,
  type RequestOutcome,
  RouteRateLimiter,
} from './route-rate-limiter.ts';

const MINT_ROUTES = [
  // Mint quotes: create one, read one, check a batch.
  'create',
  'read',
  'check',
  'info',
  // Keysets and their keys.
  'keys',
  // Proofs: swap them, check their state, restore them.
  'swap',
  'state',
  'restore',
  // Open a WebSocket, and send a message on it.
  'socket',
] as const;

/** Mints count requests per route, so each route of a mint has its own limit. */
export type MintRoute = (typeof MINT_ROUTES)[number];

/** More payers would wait in vain for a rate limit or a pause, because payers wait only for some seconds. */
const MAX_WAITING_FOR_LIMIT = 64;

/** For callers that only wait until other requests complete. */
const MAX_WAITING_FOR_REQUESTS = 512;

/** Far more mints than are in use at a time. Users could otherwise fill the memory by naming mints. */
const MAX_TRACKED_MINTS = 5_000;

const MIN_RETRY_AFTER_MS = 1_000;

interface Caller {
  /** The address group of the waiting payer, which gets only a share of a learned limit; null without a payer. */
  readonly addressGroup: string | null;
  /** When the caller stops waiting, on the monotonic clock. A retry has the same deadline. */
  readonly waitDeadlineMs: number;
}

/** Permission to send one request. Its holder must call one of the methods, once. */
export interface MintPermit extends Caller {
  complete(outcome: RequestOutcome): void;
  /** Returns the permit unused: the request was not sent. */
  cancel(): void;
}

export type AcquireResult =
  | { outcome: 'granted'; permit: MintPermit }
  | { outcome: 'rate_limited'; retryAfterMs: number };

export interface FinishedMintRequest {
  mintUrl: string;
  route: MintRoute;
  outcome: string;
  durationMs: number;
}

export interface MintRateLimiterDeps {
  store: {
    loadRateLimits: (mintUrl: string) => Promise<unknown>;
    saveRateLimit: (mintUrl: string, route: string, limit: object | null) => Promise<void>;
  };
  monotonicMs: () => number;
  timing?: Partial<RateLimiterTiming>;
  onRequestFinished?: (request: FinishedMintRequest) => void;
  log: Pick<Logger, 'info' | 'warn'>;
}

const learnedLimitsSchema = z.partialRecord(z.enum(MINT_ROUTES), learnedLimitSchema);

/** Parses stored limits. Malformed limits count as absent. */
export function parseLearnedLimits(stored: unknown): Partial<Record<MintRoute, LearnedLimit>> {
  return learnedLimitsSchema.safeParse(stored).data ?? {};
}

interface Waiter extends Caller {
  grant(): void;
  reject(): void;
}

interface MintState {
  readonly mintUrl: string;
  readonly routes: Map<MintRoute, RouteState>;
  /** Resolves when the stored limits have been loaded. */
  limitsLoaded: Promise<void>;
}

interface RouteState {
  readonly mint: MintState;
  readonly name: MintRoute;
  readonly limiter: RouteRateLimiter;
  /** In order of arrival. */
  readonly queue: Set<Waiter>;
  /** Serves the queue when the next permit becomes available. */
  queueTimer: NodeJS.Timeout | undefined;
  readonly inFlightByGroup: KeyedCounter;
  readonly outage: OutageTracker;
}

/**
 * Decides when requests may be sent to a mint. Every request, and every message on a WebSocket, needs a permit.
 * {@link RouteRateLimiter} contains the rules; this class queues the callers that wait for a permit, and shares
 * learned limits with other processes through the database.
 */
export class MintRateLimiter {
  readonly #deps: MintRateLimiterDeps;
  readonly #timing: RateLimiterTiming;
  readonly #mints = new LRUCache<string, MintState>({ max: MAX_TRACKED_MINTS });

  constructor(deps: MintRateLimiterDeps) {
    this.#deps = deps;
    this.#timing = { ...RATE_LIMITER_TIMING, ...deps.timing };
  }

  get payerMaxWaitMs(): number {
    return this.#timing.payerMaxWaitMs;
  }

  /**
   * Waits for permission to send one request. Callers from the address group with the fewest pending requests come
   * first, in order of arrival.
   *
   * @param options.maxWaitMs by default 0: the caller does not wait
   */
  async acquire(
    mintUrl: string,
    routeName: MintRoute,
    options: { addressGroup?: string | null; maxWaitMs?: number } = {},
  ): Promise<AcquireResult> {
    const { addressGroup = null, maxWaitMs = 0 } = options;
    const caller = { addressGroup, waitDeadlineMs: this.#deps.monotonicMs() + maxWaitMs };
    const mint = this.#getMint(mintUrl);
    await mint.limitsLoaded;
    const route = this.#getRoute(mint, routeName);
    const waitMs = this.#getWaitMs(route, addressGroup);
    if (waitMs === 0) {
      return this.#grantPermit(route, caller);
    }
    // Loading the stored limits may have taken part of the time.
    const remainingWaitMs = caller.waitDeadlineMs - this.#deps.monotonicMs();
    const isTooLong = Number.isFinite(waitMs) && waitMs > remainingWaitMs;
    const maxWaiting = Number.isFinite(waitMs) ? MAX_WAITING_FOR_LIMIT : MAX_WAITING_FOR_REQUESTS;
    const canWait = remainingWaitMs > 0 && !isTooLong;
    if (!canWait || !this.#makeRoom(route, maxWaiting, addressGroup)) {
      return this.#createRejection(route, addressGroup);
    }
    return await this.#enqueue(route, caller, remainingWaitMs);
  }

  getWaitMs(mintUrl: string, routeName: MintRoute): number {
    const route = this.#mints.peek(mintUrl)?.routes.get(routeName);
    return route === undefined ? 0 : toFiniteWaitMs(this.#getWaitMs(route, null));
  }

  hasLearnedLimit(mintUrl: string, routeName: MintRoute): boolean {
    return this.#mints.peek(mintUrl)?.routes.get(routeName)?.limiter.learnedLimit != null;
  }

  /** Returns the cooldowns and learned limits of the routes of a mint that this process has used. */
  getStatus(mintUrl: string) {
    const nowMs = this.#deps.monotonicMs();
    return [...(this.#mints.peek(mintUrl)?.routes ?? [])].map(([route, { limiter }]) => ({
      route,
      cooldownMs: limiter.getCooldownMs(nowMs),
      limit: limiter.learnedLimit && {
        perWindow: limiter.learnedLimit.count,
        used: limiter.countUsed(nowMs),
      },
    }));
  }

  #getMint(mintUrl: string): MintState {
    let mint = this.#mints.get(mintUrl);
    if (mint === undefined) {
      mint = { mintUrl, routes: new Map(), limitsLoaded: Promise.resolve() };
      mint.limitsLoaded = this.#loadStoredLimits(mint);
      this.#mints.set(mintUrl, mint);
    }
    return mint;
  }

  #getRoute(mint: MintState, name: MintRoute): RouteState {
    return mint.routes.getOrInsertComputed(name, () => ({
      mint,
      name,
      limiter: new RouteRateLimiter(this.#timing),
      queue: new Set(),
      queueTimer: undefined,
      inFlightByGroup: new KeyedCounter(),
      outage: new OutageTracker(this.#deps.monotonicMs),
    }));
  }

  #getWaitMs({ limiter }: RouteState, addressGroup: string | null): number {
    return limiter.getWaitMs(this.#deps.monotonicMs(), addressGroup);
  }

  #grantPermit(route: RouteState, caller: Caller): AcquireResult {
    const request = route.limiter.recordSent(this.#deps.monotonicMs(), caller.addressGroup);
    const groupKey = caller.addressGroup ?? '';
    route.inFlightByGroup.increment(groupKey);
    const release = () => {
      route.inFlightByGroup.decrement(groupKey);
      this.#serveQueue(route);
    };
    const permit: MintPermit = {
      ...caller,
      complete: (outcome) => {
        const nowMs = this.#deps.monotonicMs();
        const previousLimit = route.limiter.learnedLimit;
        route.limiter.recordOutcome(request, outcome, nowMs);
        this.#deps.onRequestFinished?.({
          mintUrl: route.mint.mintUrl,
          route: route.name,
          outcome: outcome.outcome,
          durationMs: nowMs - request.sentAtMs,
        });
        this.#logOutage(route, outcome);
        if (route.limiter.learnedLimit !== previousLimit) {
          this.#saveLimit(route);
        } else if (outcome.outcome === 'rate_limited') {
          // Another process may already have learned the limit.
          void this.#loadStoredLimits(route.mint);
        }
        release();
      },
      cancel: () => {
        route.limiter.cancel(request);
        release();
      },
    };
    return { outcome: 'granted', permit };
  }

  #createRejection(route: RouteState, addressGroup: string | null): AcquireResult {
    const waitMs = toFiniteWaitMs(this.#getWaitMs(route, addressGroup));
    return { outcome: 'rate_limited', retryAfterMs: Math.max(waitMs, MIN_RETRY_AFTER_MS) };
  }

  #enqueue(route: RouteState, caller: Caller, maxWaitMs: number): Promise<AcquireResult> {
    const { promise, resolve } = Promise.withResolvers<AcquireResult>();
    const leave = () => {
      clearTimeout(timeout);
      route.queue.delete(waiter);
    };
    const waiter: Waiter = {
      ...caller,
      grant: () => {
        leave();
        resolve(this.#grantPermit(route, caller));
      },
      reject: () => {
        leave();
        resolve(this.#createRejection(route, caller.addressGroup));
      },
    };
    const timeout = setTimeout(() => {
      waiter.reject();
      // Clears the queue's timer if the queue is empty. The timer would keep an operator's command running.
      this.#serveQueue(route);
    }, maxWaitMs);
    route.queue.add(waiter);
    this.#serveQueue(route);
    return promise;
  }

  /** Grants all available permits, and calls itself again when the next permit becomes available. */
  #serveQueue(route: RouteState): void {
    clearTimeout(route.queueTimer);
    let next = this.#findNextWaiter(route);
    while (next?.waitMs === 0) {
      next.waiter.grant();
      next = this.#findNextWaiter(route);
    }
    if (next !== undefined && Number.isFinite(next.waitMs)) {
      route.queueTimer = setTimeout(() => this.#serveQueue(route), Math.ceil(next.waitMs));
    }
  }

  /**
   * If the queue is full, rejects the last waiter of the address group with the most waiters.
   *
   * @returns false if the caller's group would then have the most
   */
  #makeRoom(route: RouteState, maxWaiting: number, addressGroup: string | null): boolean {
    if (route.queue.size < maxWaiting) {
      return true;
    }
    const byGroup = Map.groupBy(route.queue, (waiter) => waiter.addressGroup);
    const largest = [...byGroup.values()].reduce((one, other) =>
      other.length > one.length ? other : one,
    );
    if (largest.length <= (byGroup.get(addressGroup)?.length ?? 0) + 1) {
      return false;
    }
    largest.at(-1)?.reject();
    return true;
  }

  /** Considers only the first waiter of each address group, because the others of the group wait at least as long. */
  #findNextWaiter(route: RouteState): { waiter: Waiter; waitMs: number } | undefined {
    const routeWaitMs = this.#getWaitMs(route, null);
    const [firstWaiter] = route.queue;
    if (firstWaiter !== undefined && routeWaitMs > 0) {
      return { waiter: firstWaiter, waitMs: routeWaitMs };
    }
    const firstByGroup = new Map<string | null, Waiter>();
    for (const waiter of route.queue) {
      if (!firstByGroup.has(waiter.addressGroup)) {
        firstByGroup.set(waiter.addressGroup, waiter);
      }
    }
    return [...firstByGroup.values()]
      .map((waiter) => ({
        waiter,
        waitMs: this.#getWaitMs(route, waiter.addressGroup),
        inFlight: route.inFlightByGroup.get(waiter.addressGroup ?? ''),
      }))
      .sort((one, other) => one.waitMs - other.waitMs || one.inFlight - other.inFlight)[0];
  }

  /** Loads the limits that other processes learned. If that fails, this process learns the limits itself. */
  async #loadStoredLimits(mint: MintState): Promise<void> {
    const { store, monotonicMs, log } = this.#deps;
    const { mintUrl } = mint;
    try {
      const stored = parseLearnedLimits(await store.loadRateLimits(mintUrl));
      for (const [name, limit] of Object.entries(stored) as [MintRoute, LearnedLimit][]) {
        this.#getRoute(mint, name).limiter.adoptLimit(limit, monotonicMs());
      }
    } catch (error) {
      log.warn(
        { event: 'mint_rate_limits_not_read', err: error, mintUrl },
        'could not load the rate limits of a mint; learning them again',
      );
    }
  }

  #saveLimit({ mint: { mintUrl }, name, limiter: { learnedLimit } }: RouteState): void {
    const { store, log } = this.#deps;
    log.info(
      { event: 'mint_rate_limit_changed', mintUrl, route: name, limit: learnedLimit },
      learnedLimit === null ? 'mint rate limit no longer applies' : 'mint rate limit learned',
    );
    store.saveRateLimit(mintUrl, name, learnedLimit).catch((error: unknown) => {
      log.warn(
        { event: 'mint_rate_limits_not_stored', err: error, mintUrl },
        'could not store the rate limit of a mint; other processes will learn it themselves',
      );
    });
  }

  /** Logs once when a route of a mint starts to fail, and once when it has recovered. */
  #logOutage(route: RouteState, { outcome, reason }: RequestOutcome): void {
    const fields = { mintUrl: route.mint.mintUrl, route: route.name };
    if (outcome === 'unavailable') {
      if (route.outage.recordFailure()) {
        this.#deps.log.warn(
          { event: 'mint_unavailable', ...fields, reason },
          'requests to the mint fail; retrying',
        );
      }
    } else if (outcome !== 'rate_limited' && route.outage.recordSuccess()) {
      this.#deps.log.info(
        { event: 'mint_available', ...fields },
        'requests to the mint succeed again',
      );
    }
  }
}

/** An infinite wait ends when a pending request completes, usually within a second. */
function toFiniteWaitMs(waitMs: number): number {
  return Number.isFinite(waitMs) ? waitMs : MIN_RETRY_AFTER_MS;
}
