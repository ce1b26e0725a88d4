export interface RateLimit {
  requestsPerWindow: number;
  /**
   * `elastic` (default): every request restarts the window, even a rejected request. Nutshell does this.
   * `sliding`: counts the admitted requests of the last `windowMs`.
   */
  windowKind?: 'elastic' | 'sliding';
  /** Default: one minute. Tests that run faster than real time use a shorter window. */
  windowMs?: number;
  /** Sent as `Retry-After`. By default, the header is omitted. */
  retryAfterSeconds?: number;
}

const MINUTE_MS = 60_000;

/** Applies the rate limit in the switches, which tests may change at any time. */
export class RateLimiter {
  readonly #switches: { readonly rateLimit: RateLimit | null };
  readonly #now: () => number;
  /** Times of the counted requests, by counter name. */
  readonly #requestTimesMs = new Map<string, number[]>();

  /** @param now milliseconds since 1970 */
  constructor(switches: { readonly rateLimit: RateLimit | null }, now: () => number) {
    this.#switches = switches;
    this.#now = now;
  }

  /** Counts a request. Returns the limit if the request exceeds it, otherwise null. */
  countRequest(counterName: string): RateLimit | null {
    const limit = this.#switches.rateLimit;
    if (limit === null) {
      return null;
    }
    const { requestsPerWindow, windowKind = 'elastic', windowMs = MINUTE_MS } = limit;
    const nowMs = this.#now();
    const earlierTimesMs = this.#requestTimesMs.get(counterName) ?? [];
    let timesInWindowMs = earlierTimesMs.filter((atMs) => atMs > nowMs - windowMs);
    // An elastic window ends only when no request has arrived for `windowMs`. Until then, all requests count.
    if (windowKind === 'elastic' && timesInWindowMs.length > 0) {
      timesInWindowMs = earlierTimesMs;
    }
    const isAdmitted = timesInWindowMs.length < requestsPerWindow;
    if (isAdmitted || windowKind === 'elastic') {
      timesInWindowMs.push(nowMs);
    }
    this.#requestTimesMs.set(counterName, timesInWindowMs);
    return isAdmitted ? null : limit;
  }
}
