/** Mints count requests by route (measured on Nutshell); so do we. */
export type MintRoute = 'create' | 'read' | 'check' | 'info';

/** What came of a request; the answers of the mint client are such outcomes as they are. */
export type RequestOutcome =
  | { outcome: 'rate_limited'; retryAfterMs: number | null }
  | { outcome: 'unavailable' }
  | { outcome: 'created' | 'found' | 'not_found' | 'refused' | 'unsupported' | 'invalid' };

/**
 * After a 429 without `Retry-After`. Nutshell's minute is elastic: every refused request starts it
 * anew, so the route must be left quite alone for more than 60 s.
 */
const RATE_LIMIT_REST_MS = 65_000;

/** After a 429 whose `Retry-After` is none at all, such as 0 or a date that is over. */
const SHORTEST_LIMIT_REST_MS = 2_000;

/** First rest after a mint gave no usable answer; it doubles while the mint stays so. */
const FIRST_REST_MS = 1_000;

/** Longest such rest: a mint that comes back is noticed within a minute. */
const LONGEST_REST_MS = 60_000;

/** Nutshell allows 20 a minute on each of its polling routes; this is 15. */
export const POLL_GAP_MS = 4_000;

/** Far more mints than one service has users for at a time; keeps strangers' urls from piling up. */
const MAX_MINTS = 5_000;

/** Times in milliseconds since 1970. */
interface RouteState {
  /** Without a usable answer, in a row. */
  failures: number;
  failureRestUntil: number;
  rateLimitRestUntil: number;
  /** How long that rest was meant to be. */
  rateLimitRestMs: number;
  pollGapUntil: number;
}

const FRESH: RouteState = {
  failures: 0,
  failureRestUntil: 0,
  rateLimitRestUntil: 0,
  rateLimitRestMs: 0,
  pollGapUntil: 0,
};

/**
 * When a mint may be asked again, by mint and route: a rest after 429, a growing one after failures,
 * and a gap between polls. Pure: `now` is milliseconds since 1970. One request at a time on a polling
 * route, for the gap is counted from the last {@link record}.
 */
export class RequestBudget {
  /** The mint least recently recorded comes first. */
  readonly #mints = new Map<string, Map<MintRoute, RouteState>>();
  readonly #pollGapMs: number;

  /** @param options.pollGapMs at least this long from one poll's answer to the next poll */
  constructor(options: { pollGapMs: number }) {
    this.#pollGapMs = options.pollGapMs;
  }

  /** @returns milliseconds until the route may be used; 0 is now */
  waitMs(mintUrl: string, route: MintRoute, now: number): number {
    const state = this.#mints.get(mintUrl)?.get(route);
    if (state === undefined) {
      return 0;
    }
    // Where the clock was set back, a rest begins anew and is not stretched.
    state.failureRestUntil = Math.min(state.failureRestUntil, now + LONGEST_REST_MS);
    state.rateLimitRestUntil = Math.min(state.rateLimitRestUntil, now + state.rateLimitRestMs);
    state.pollGapUntil = Math.min(state.pollGapUntil, now + this.#pollGapMs);
    const until = Math.max(state.failureRestUntil, state.rateLimitRestUntil, state.pollGapUntil);
    return Math.max(0, until - now);
  }

  /** Tells what came of a request to the mint. */
  record(mintUrl: string, route: MintRoute, outcome: RequestOutcome, now: number): void {
    const routes = this.#mints.get(mintUrl) ?? new Map<MintRoute, RouteState>();
    const isPoll = route === 'read' || route === 'check';
    routes.set(route, {
      ...afterOutcome(routes.get(route) ?? FRESH, outcome, now),
      pollGapUntil: isPoll ? now + this.#pollGapMs : 0,
    });
    this.#mints.delete(mintUrl);
    this.#mints.set(mintUrl, routes);
    this.#forgetOldest();
  }

  #forgetOldest(): void {
    for (const mintUrl of this.#mints.keys()) {
      if (this.#mints.size <= MAX_MINTS) {
        return;
      }
      this.#mints.delete(mintUrl);
    }
  }
}

function afterOutcome(state: RouteState, outcome: RequestOutcome, now: number): RouteState {
  switch (outcome.outcome) {
    case 'rate_limited': {
      const restMs = Math.max(outcome.retryAfterMs ?? RATE_LIMIT_REST_MS, SHORTEST_LIMIT_REST_MS);
      const rateLimitRestUntil = Math.max(state.rateLimitRestUntil, now + restMs);
      return { ...state, rateLimitRestUntil, rateLimitRestMs: restMs };
    }
    case 'unavailable':
      return afterFailure(state, now);
    default:
      return { ...state, failures: 0, failureRestUntil: 0 };
  }
}

/** Requests that ran side by side fail together, which is one failure and not many. */
function afterFailure(state: RouteState, now: number): RouteState {
  if (now < state.failureRestUntil) {
    return state;
  }
  return {
    ...state,
    failures: state.failures + 1,
    failureRestUntil: now + Math.min(FIRST_REST_MS * 2 ** state.failures, LONGEST_REST_MS),
  };
}
