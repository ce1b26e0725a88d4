import type { TestMintSwitches } from './switches.ts';

/** A limit on the requests of each path, or of the WebSocket's openings and messages. */
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
  readonly #switches: Pick<TestMintSwitches, 'rateLimit'>;
  readonly #now: () => number;
  readonly #elastic = new ElasticRateLimit();
  readonly #sliding = new SlidingRateLimit();

  /** @param now milliseconds since 1970 */
  constructor(switches: Pick<TestMintSwitches, 'rateLimit'>, now: () => number) {
    this.#switches = switches;
    this.#now = now;
  }

  /** Counts one request, and returns the limit that rejects it, or null. */
  limitReached(name: string): RateLimit | null {
    const limit = this.#switches.rateLimit;
    if (limit === null) {
      return null;
    }
    const { perMinute, window, windowMs = MINUTE_MS } = limit;
    const counter = window === 'sliding' ? this.#sliding : this.#elastic;
    return counter.admits(name, perMinute, this.#now(), windowMs) ? null : limit;
  }
}

/**
 * Counts requests in elastic windows, one for each name: every request, admitted or rejected, restarts
 * its window, so only a quiet minute ends it.
 */
class ElasticRateLimit {
  readonly #windows = new Map<string, { used: number; endsAtMs: number }>();

  /** Counts one request and returns whether it is admitted. */
  admits(name: string, perMinute: number, nowMs: number, windowMs = MINUTE_MS): boolean {
    const window = this.#windows.get(name);
    const usedBefore = window !== undefined && nowMs < window.endsAtMs ? window.used : 0;
    const used = usedBefore + 1;
    this.#windows.set(name, { used, endsAtMs: nowMs + windowMs });
    return used <= perMinute;
  }
}

/** Counts the requests that it admitted within the last minute, separately for each name. */
class SlidingRateLimit {
  readonly #admittedAtMs = new Map<string, number[]>();

  /** Counts one request and returns whether it is admitted. */
  admits(name: string, perMinute: number, nowMs: number, windowMs: number): boolean {
    const recent = (this.#admittedAtMs.get(name) ?? []).filter((atMs) => atMs > nowMs - windowMs);
    const isAdmitted = recent.length < perMinute;
    this.#admittedAtMs.set(name, isAdmitted ? [...recent, nowMs] : recent);
    return isAdmitted;
  }
}
