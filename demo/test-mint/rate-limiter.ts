export interface RateLimit {
  requestsPerWindow: number;
  /**
   * `elastic` (default), as measured on Nutshell: every request restarts the window, including a rejected one.
   * `sliding`: counts the requests admitted within the last window.
   */
  window?: 'elastic' | 'sliding';
  /** Default 60,000. Tests that scale time down use a shorter window. */
  windowMs?: number;
  /** Sent as `Retry-After`. By default, the header is omitted. */
  retryAfterSeconds?: number;
}

const MINUTE_MS = 60_000;

/** Applies the rate limit in the switches, which tests may change at any time. */
export class RateLimiter {
  readonly #switches: { readonly rateLimit: RateLimit | null };
  readonly #now: () => number;
  /** Times of the counted requests, by name. */
  readonly #requestTimesMs = new Map<string, number[]>();

  /** @param now milliseconds since 1970 */
  constructor(switches: { readonly rateLimit: RateLimit | null }, now: () => number) {
    this.#switches = switches;
    this.#now = now;
  }

  /** Counts a request. Returns the limit if it rejects the request, otherwise null. */
  checkLimit(name: string): RateLimit | null {
    const limit = this.#switches.rateLimit;
    if (limit === null) {
      return null;
    }
    const { requestsPerWindow, window = 'elastic', windowMs = MINUTE_MS } = limit;
    const nowMs = this.#now();
    const counted = this.#requestTimesMs.get(name) ?? [];
    let recent = counted.filter((atMs) => atMs > nowMs - windowMs);
    if (window === 'elastic' && recent.length > 0) {
      recent = counted;
    }
    const isAdmitted = recent.length < requestsPerWindow;
    if (isAdmitted || window === 'elastic') {
      recent.push(nowMs);
    }
    this.#requestTimesMs.set(name, recent);
    return isAdmitted ? null : limit;
  }
}
