import { z } from 'zod';
import { RecentlyUsed } from '../domain/recently-used.ts';
import { type LearntLimit, learntLimitSchema } from './learnt-limit.ts';
import {
  type RequestOutcome,
  RouteBudget,
  type RouteUse,
  type SentRequest,
} from './route-budget.ts';

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
  /** Creating one and reading it. */
  'melt_quote',
  'melt',
] as const;

/** Mints count requests by route, and Nutshell single reads by quote (measured); we do by route. */
export type MintRoute = (typeof MINT_ROUTES)[number];

/** What 429s taught of the limits of a mint, by route. It may be stored as JSON. */
export type LearntLimits = Partial<Record<MintRoute, LearntLimit>>;

/** A request that {@link RequestBudget.sent} counted. */
export interface CountedRequest extends SentRequest {
  readonly mintUrl: string;
  readonly route: MintRoute;
}

/** How far a route of a mint is used, and how long it is left alone. */
export interface RouteStanding {
  route: MintRoute;
  /** Milliseconds until its rest after a refusal or a failure is over; 0: it has none. */
  restMs: number;
  /** Requests that the mint seems to allow in a window, and how many of them are used; null: not known. */
  limit: { perWindow: number; used: number } | null;
}

/** A careful start: Nutshell allows 20 a minute on each of its polling routes; this is 15. */
export const POLL_GAP_MS = 4_000;

/** Far more mints than are in use at a time; keeps strangers' urls from piling up. */
export const MAX_MINTS = 5_000;

const learntLimits = z.partialRecord(z.enum(MINT_ROUTES), learntLimitSchema);

/**
 * Reads what {@link RequestBudget.learnt} gave and something stored.
 *
 * @returns null where it is anything else
 */
export function parseLearntLimits(stored: unknown): LearntLimits | null {
  return learntLimits.safeParse(stored).data ?? null;
}

/**
 * When a mint may be asked again, by mint and route: a rest after a 429, a growing one after
 * failures, no more requests than 429s taught, and a gap between polls that learns. Pure: `now` is
 * milliseconds since 1970.
 *
 * Whoever asks a mint looks at {@link waitMs}, tells {@link sent}, and then {@link record} or
 * {@link withdraw}.
 */
export class RequestBudget {
  readonly #mints = new RecentlyUsed(MAX_MINTS, () => new Map<MintRoute, RouteBudget>());
  readonly #pollGapMs: number;
  readonly #onLearnt: (mintUrl: string) => void;
  readonly #onRecorded: (request: CountedRequest, outcome: RequestOutcome, now: number) => void;

  /**
   * @param options.pollGapMs from one poll to the next at first; it shrinks while the mint answers
   *   and polls are waited for, and grows when there is trouble
   * @param options.onLearnt called at each 429, when {@link learnt} has something new to tell
   * @param options.onRecorded told what came of each request, and when
   */
  constructor(options: {
    pollGapMs: number;
    onLearnt?: (mintUrl: string) => void;
    onRecorded?: (request: CountedRequest, outcome: RequestOutcome, now: number) => void;
  }) {
    this.#pollGapMs = options.pollGapMs;
    this.#onLearnt = options.onLearnt ?? (() => {});
    this.#onRecorded = options.onRecorded ?? (() => {});
  }

  /** @returns milliseconds until the route may be used; 0 is now */
  waitMs(mintUrl: string, route: MintRoute, now: number): number {
    return this.#mints.look(mintUrl)?.get(route)?.waitMs(now) ?? 0;
  }

  /** @returns milliseconds until the route's rest after a refusal or a failure is over; 0 is now */
  restMs(mintUrl: string, route: MintRoute, now: number): number {
    return this.#mints.look(mintUrl)?.get(route)?.restMs(now) ?? 0;
  }

  /** How far a route is used now, for those who share it. */
  use(mintUrl: string, route: MintRoute, now: number): RouteUse {
    return this.#budgetOf(mintUrl, route).use(now);
  }

  /** Notes that a request was not sent, so that others may have theirs; a higher ceiling is wanted. */
  leftToOthers(mintUrl: string, route: MintRoute): void {
    this.#budgetOf(mintUrl, route).leftToOthers();
  }

  /** Counts a request that is sent to the mint now. */
  sent(mintUrl: string, route: MintRoute, now: number): CountedRequest {
    return { mintUrl, route, ...this.#budgetOf(mintUrl, route).sent(now) };
  }

  /** Takes back a request that was counted, and that the mint never got. */
  withdraw(request: CountedRequest): void {
    this.#budgetOf(request.mintUrl, request.route).withdraw(request);
  }

  /** Tells what came of a request. */
  record(request: CountedRequest, outcome: RequestOutcome, now: number): void {
    this.#budgetOf(request.mintUrl, request.route).record(request, outcome, now);
    this.#onRecorded(request, outcome, now);
    if (outcome.outcome === 'rate_limited') {
      this.#onLearnt(request.mintUrl);
    }
  }

  /** How the routes of a mint stand that were ever used or limited here. */
  standing(mintUrl: string, now: number): RouteStanding[] {
    return [...(this.#mints.look(mintUrl) ?? [])].map(([route, budget]) => {
      const { ceiling, usedAt } = budget.use(now);
      const limit = ceiling && { perWindow: ceiling.perWindow, used: usedAt(now) };
      return { route, restMs: budget.restMs(now), limit };
    });
  }

  /** What 429s taught of a mint, for another process; null where there were none. */
  learnt(mintUrl: string, now: number): LearntLimits | null {
    const learnt: LearntLimits = {};
    for (const [route, budget] of this.#mints.look(mintUrl) ?? []) {
      const limit = budget.learnt(now);
      if (limit !== null) {
        learnt[route] = limit;
      }
    }
    return Object.keys(learnt).length > 0 ? learnt : null;
  }

  /** Takes over what another process learnt of a mint. What is known here is never loosened. */
  adopt(mintUrl: string, learnt: LearntLimits, now: number): void {
    for (const [route, limit] of Object.entries(learnt) as [MintRoute, LearntLimit][]) {
      this.#budgetOf(mintUrl, route).adopt(limit, now);
    }
  }

  #budgetOf(mintUrl: string, route: MintRoute): RouteBudget {
    const routes = this.#mints.use(mintUrl);
    const budget = routes.get(route) ?? new RouteBudget(this.#startGapMs(route));
    routes.set(route, budget);
    return budget;
  }

  #startGapMs(route: MintRoute): number | null {
    return route === 'read' || route === 'check' ? this.#pollGapMs : null;
  }
}
