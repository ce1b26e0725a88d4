import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Log } from '../log.ts';
import {
  type KnownLimit,
  MINT_LIMITER_TIMING,
  type MintLimiterTiming,
  type RequestOutcome,
  RouteLimit,
  routeLimitSchema,
} from './route-limit.ts';

const MINT_ROUTES = [
  'create',
  'read',
  'check',
  'info',
  /** Keysets and their keys. */
  'keys',
  'swap',
  'state',
  'restore',
  /** Opening the WebSocket, and each message on it. */
  'socket',
] as const;

/** Mints count requests by route, so each route of a mint has a limit of its own. */
export type MintRoute = (typeof MINT_ROUTES)[number];

/** Requests that wait for a permit of one route. */
const MAX_WAITING = 512;

/** Far more mints than are in use at a time. Users can name any number. */
const MAX_MINTS = 5_000;

/** The shortest time that a refused caller is asked to wait. */
const SHORTEST_RETRY_MS = 1_000;

/** Permission to send one request. Exactly one of its methods must be called, once. */
export interface MintPermit {
  readonly addressGroup: string | null;
  /** When the caller's patience ends, on the monotonic clock; a second attempt may wait until then. */
  readonly patienceUntilMs: number;
  settle(outcome: RequestOutcome & { reason?: string }): void;
  /** Gives the permit back: the request was never sent. */
  withdraw(): void;
}

export type Acquired =
  | { outcome: 'granted'; permit: MintPermit }
  | { outcome: 'rate_limited'; retryAfterMs: number };

export interface FinishedRequest {
  mintUrl: string;
  route: MintRoute;
  outcome: string;
  tookMs: number;
}

export interface RouteStatus {
  route: MintRoute;
  restMs: number;
  /** Requests per window, and how many of them are used; null if no limit is known. */
  limit: { perWindow: number; used: number } | null;
}

/** Where learned limits are kept for other processes. */
interface RateLimitStore {
  readRateLimits(mintUrl: string): Promise<unknown>;
  /** @param limit null: there is none any more */
  writeRateLimit(mintUrl: string, route: string, limit: object | null): Promise<void>;
}

export interface MintRateLimiterParts {
  store: RateLimitStore;
  monotonicMs: () => number;
  timing?: Partial<MintLimiterTiming>;
  onFinished?: (request: FinishedRequest) => void;
  log: Pick<Log, 'info' | 'warn'>;
}

export type KnownLimits = Partial<Record<MintRoute, KnownLimit>>;

const storedLimits = z.partialRecord(z.enum(MINT_ROUTES), routeLimitSchema);

/** Reads stored limits. Anything else counts as none. */
export function parseKnownLimits(stored: unknown): KnownLimits {
  return storedLimits.safeParse(stored).data ?? {};
}

interface Waiter {
  readonly addressGroup: string | null;
  grant(): void;
}

interface Route {
  readonly mintUrl: string;
  readonly name: MintRoute;
  readonly limit: RouteLimit;
  /** In order of arrival. */
  readonly waiting: Set<Waiter>;
  readonly inFlightByGroup: Map<string | null, number>;
  timer: NodeJS.Timeout | undefined;
  isFailing: boolean;
}

interface Mint {
  readonly routes: Map<MintRoute, Route>;
  /** Resolves when the limits that other processes learned have been read. */
  loaded: Promise<void>;
}

/**
 * Decides when a mint may be asked. Every request to a mint, and every message on its WebSocket, needs a
 * permit. {@link RouteLimit} has the rules; this class adds the queue of callers that wait, and shares
 * learned limits with other processes through the database.
 */
export class MintRateLimiter {
  readonly #parts: MintRateLimiterParts;
  readonly #timing: MintLimiterTiming;
  readonly #mints = new LRUCache<string, Mint>({ max: MAX_MINTS });

  constructor(parts: MintRateLimiterParts) {
    this.#parts = parts;
    this.#timing = { ...MINT_LIMITER_TIMING, ...parts.timing };
  }

  /** How long a payer's request waits for permits, in milliseconds. */
  get payerPatienceMs(): number {
    return this.#timing.payerPatienceMs;
  }

  /**
   * Waits for permission to send one request. Callers are served in order of arrival; if several wait,
   * the address group with the fewest requests under way goes first.
   *
   * @param options.addressGroup the payer's, to share a known limit fairly
   * @param options.patienceMs how long to wait at most; 0 by default
   */
  async acquire(
    mintUrl: string,
    routeName: MintRoute,
    options: { addressGroup?: string | null; patienceMs?: number } = {},
  ): Promise<Acquired> {
    const { addressGroup = null, patienceMs = 0 } = options;
    const patienceUntilMs = this.#parts.monotonicMs() + patienceMs;
    const route = await this.#route(mintUrl, routeName);
    const waitMs = this.#waitMs(route, addressGroup);
    if (waitMs === 0) {
      return this.#granted(route, addressGroup, patienceUntilMs);
    }
    // Reading the limits that other processes learned took some of the patience.
    const patienceLeftMs = patienceUntilMs - this.#parts.monotonicMs();
    const isTooLong = Number.isFinite(waitMs) && waitMs > patienceLeftMs;
    if (patienceLeftMs <= 0 || isTooLong || route.waiting.size >= MAX_WAITING) {
      return this.#refused(route, addressGroup);
    }
    return await this.#waitForTurn(route, addressGroup, patienceUntilMs, patienceLeftMs);
  }

  /** Milliseconds until a request on the route can be sent; 0 is now. */
  waitMs(mintUrl: string, routeName: MintRoute): number {
    const route = this.#mints.peek(mintUrl)?.routes.get(routeName);
    return route === undefined ? 0 : finite(this.#waitMs(route, null));
  }

  knows(mintUrl: string, routeName: MintRoute): boolean {
    return this.#mints.peek(mintUrl)?.routes.get(routeName)?.limit.known != null;
  }

  /** How the routes of a mint that were used in this process are limited. */
  status(mintUrl: string): RouteStatus[] {
    const nowMs = this.#parts.monotonicMs();
    return [...(this.#mints.peek(mintUrl)?.routes ?? [])].map(([route, { limit }]) => ({
      route,
      restMs: limit.restMs(nowMs),
      limit: limit.known && { perWindow: limit.known.count, used: limit.used(nowMs) },
    }));
  }

  /** The route, once the limits are read that other processes learned. */
  async #route(mintUrl: string, name: MintRoute): Promise<Route> {
    const mint = this.#mint(mintUrl);
    await mint.loaded;
    return this.#routeOf(mintUrl, mint, name);
  }

  #mint(mintUrl: string): Mint {
    const known = this.#mints.get(mintUrl);
    if (known !== undefined) {
      return known;
    }
    const mint: Mint = { routes: new Map(), loaded: Promise.resolve() };
    this.#mints.set(mintUrl, mint);
    mint.loaded = this.#adoptStored(mintUrl, mint);
    return mint;
  }

  #routeOf(mintUrl: string, mint: Mint, name: MintRoute): Route {
    const known = mint.routes.get(name);
    if (known !== undefined) {
      return known;
    }
    const route: Route = {
      mintUrl,
      name,
      limit: new RouteLimit(this.#timing),
      waiting: new Set(),
      inFlightByGroup: new Map(),
      timer: undefined,
      isFailing: false,
    };
    mint.routes.set(name, route);
    return route;
  }

  #waitMs({ limit }: Route, addressGroup: string | null): number {
    return limit.waitMs(this.#parts.monotonicMs(), addressGroup);
  }

  #granted(route: Route, addressGroup: string | null, patienceUntilMs: number): Acquired {
    const request = route.limit.send(this.#parts.monotonicMs(), addressGroup);
    countInFlight(route, addressGroup, 1);
    const finish = () => {
      countInFlight(route, addressGroup, -1);
      this.#serveWaiting(route);
    };
    const permit: MintPermit = {
      addressGroup,
      patienceUntilMs,
      settle: (outcome) => {
        const nowMs = this.#parts.monotonicMs();
        const knownBefore = route.limit.known;
        route.limit.settle(request, outcome, nowMs);
        const { mintUrl, name } = route;
        const tookMs = nowMs - request.sentAtMs;
        this.#parts.onFinished?.({ mintUrl, route: name, outcome: outcome.outcome, tookMs });
        this.#logOutage(route, outcome);
        if (route.limit.known !== knownBefore) {
          this.#limitChanged(route);
        } else if (outcome.outcome === 'rate_limited') {
          // Another process may know the limit already.
          void this.#adoptStored(mintUrl, this.#mint(mintUrl));
        }
        finish();
      },
      withdraw: () => {
        route.limit.withdraw(request);
        finish();
      },
    };
    return { outcome: 'granted', permit };
  }

  #refused(route: Route, addressGroup: string | null): Acquired {
    const waitMs = finite(this.#waitMs(route, addressGroup));
    return { outcome: 'rate_limited', retryAfterMs: Math.max(waitMs, SHORTEST_RETRY_MS) };
  }

  #waitForTurn(
    route: Route,
    addressGroup: string | null,
    patienceUntilMs: number,
    patienceLeftMs: number,
  ): Promise<Acquired> {
    const { promise, resolve } = Promise.withResolvers<Acquired>();
    const waiter: Waiter = {
      addressGroup,
      grant: () => {
        clearTimeout(patience);
        route.waiting.delete(waiter);
        resolve(this.#granted(route, addressGroup, patienceUntilMs));
      },
    };
    const patience = setTimeout(() => {
      route.waiting.delete(waiter);
      // Ends the timer if no caller is left: it would keep an operator's command from ending.
      this.#serveWaiting(route);
      resolve(this.#refused(route, addressGroup));
    }, patienceLeftMs);
    route.waiting.add(waiter);
    this.#serveWaiting(route);
    return promise;
  }

  /** Grants every permit that is free, and comes back when the next one will be. */
  #serveWaiting(route: Route): void {
    clearTimeout(route.timer);
    let next = this.#nextWaiter(route);
    while (next?.waitMs === 0) {
      next.waiter.grant();
      next = this.#nextWaiter(route);
    }
    if (next !== null && Number.isFinite(next.waitMs)) {
      route.timer = setTimeout(() => this.#serveWaiting(route), Math.ceil(next.waitMs));
    }
  }

  /** Who gets the next permit, and in how many milliseconds; null if no caller waits. */
  #nextWaiter(route: Route): { waiter: Waiter; waitMs: number } | null {
    let next: { waiter: Waiter; waitMs: number; inFlight: number } | null = null;
    for (const waiter of route.waiting) {
      const waitMs = this.#waitMs(route, waiter.addressGroup);
      const inFlight = route.inFlightByGroup.get(waiter.addressGroup) ?? 0;
      const isEarlier =
        next === null ||
        waitMs < next.waitMs ||
        (waitMs === next.waitMs && inFlight < next.inFlight);
      if (isEarlier) {
        next = { waiter, waitMs, inFlight };
      }
    }
    return next;
  }

  /** Reads what other processes learned of a mint. Failing to do so costs speed only. */
  async #adoptStored(mintUrl: string, mint: Mint): Promise<void> {
    try {
      const stored = parseKnownLimits(await this.#parts.store.readRateLimits(mintUrl));
      for (const [name, limit] of Object.entries(stored) as [MintRoute, KnownLimit][]) {
        this.#routeOf(mintUrl, mint, name).limit.adopt(limit, this.#parts.monotonicMs());
      }
    } catch (error) {
      this.#parts.log.warn(
        { event: 'mint_rate_limits_not_read', err: error, mintUrl },
        'could not read the stored rate limits of a mint; they will be learned again',
      );
    }
  }

  #limitChanged({ mintUrl, name, limit: { known } }: Route): void {
    const { store, log } = this.#parts;
    log.info(
      { event: 'mint_rate_limit_changed', mintUrl, route: name, limit: known },
      known === null ? 'mint rate limit no longer applies' : 'mint rate limit learned',
    );
    store.writeRateLimit(mintUrl, name, known).catch((error: unknown) => {
      log.warn(
        { event: 'mint_rate_limits_not_stored', err: error, mintUrl },
        'could not store the rate limits of a mint; other processes will learn them themselves',
      );
    });
  }

  /** Logs once when a route of a mint begins to fail, and once when it works again. */
  #logOutage(route: Route, { outcome, reason }: RequestOutcome & { reason?: string }): void {
    const { mintUrl, name } = route;
    const isFailing = outcome === 'unavailable';
    if (isFailing === route.isFailing || outcome === 'rate_limited') {
      return;
    }
    route.isFailing = isFailing;
    if (isFailing) {
      this.#parts.log.warn(
        { event: 'mint_unavailable', mintUrl, route: name, reason },
        'mint does not answer; retrying',
      );
    } else {
      this.#parts.log.info({ event: 'mint_available', mintUrl, route: name }, 'mint answers again');
    }
  }
}

function countInFlight({ inFlightByGroup }: Route, addressGroup: string | null, by: number): void {
  const inFlight = (inFlightByGroup.get(addressGroup) ?? 0) + by;
  if (inFlight === 0) {
    inFlightByGroup.delete(addressGroup);
  } else {
    inFlightByGroup.set(addressGroup, inFlight);
  }
}

/** A wait that ends with the answer to another request is as good as none: it is asked again soon. */
function finite(waitMs: number): number {
  return Number.isFinite(waitMs) ? waitMs : SHORTEST_RETRY_MS;
}
