/** A limit on the requests to each path, or on the openings and messages of the WebSocket. */
export interface RateLimit {
  perMinute: number;
  /**
   * `elastic`, the default, as measured on Nutshell: every request, rejected ones included, restarts the
   * minute. `sliding`: counts the requests admitted within the last minute.
   */
  window?: 'elastic' | 'sliding';
  /** How long the "minute" lasts; tests that scale time down shorten it. Default 60,000. */
  windowMs?: number;
  /** Sent as `Retry-After`; default: no such header. */
  retryAfterSeconds?: number;
}

const MINUTE_MS = 60_000;

/** Applies the rate limit of the switches, which may change at any time. */
export class RateLimits {
  readonly #switches: { readonly rateLimit: RateLimit | null };
  readonly #now: () => number;
  /** The counted requests of the current window, by name. */
  readonly #countedAtMs = new Map<string, number[]>();

  /** @param now milliseconds since 1970 */
  constructor(switches: { readonly rateLimit: RateLimit | null }, now: () => number) {
    this.#switches = switches;
    this.#now = now;
  }

  /** Counts one request, and returns the limit that rejects it, or null. */
  limitReached(name: string): RateLimit | null {
    const limit = this.#switches.rateLimit;
    if (limit === null) {
      return null;
    }
    const { perMinute, window = 'elastic', windowMs = MINUTE_MS } = limit;
    const nowMs = this.#now();
    const counted = this.#countedAtMs.get(name) ?? [];
    let recent = counted.filter((atMs) => atMs > nowMs - windowMs);
    if (window === 'elastic' && recent.length > 0) {
      recent = counted;
    }
    const isAdmitted = recent.length < perMinute;
    if (isAdmitted || window === 'elastic') {
      recent.push(nowMs);
    }
    this.#countedAtMs.set(name, recent);
    return isAdmitted ? null : limit;
  }
}
