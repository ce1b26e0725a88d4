import { LRUCache } from 'lru-cache';

/** Limits the requests per key and window. A window starts with its first request. */
export class FixedWindowRateLimiter {
  readonly #windows: LRUCache<string, { startMs: number; count: number }>;
  readonly #maxPerWindow: number;
  readonly #monotonicMs: () => number;
  readonly #windowMs: number;

  /**
   * @param maxPerWindow 0: no limit
   * @param maxKeys how many keys are counted; the least recently used ones are dropped and start anew
   */
  constructor(maxPerWindow: number, maxKeys: number, monotonicMs: () => number, windowMs = 60_000) {
    // `max` would reserve memory for all keys at once.
    this.#windows = new LRUCache({ maxSize: maxKeys, sizeCalculation: () => 1 });
    this.#maxPerWindow = maxPerWindow || Number.POSITIVE_INFINITY;
    this.#monotonicMs = monotonicMs;
    this.#windowMs = windowMs;
  }

  /**
   * Counts a request for all of its keys, or for none if one of them has reached its limit: an address cannot use up
   * the limit of the prefixes that it shares.
   *
   * @returns the milliseconds until the client may retry, or null if the request is accepted
   */
  consume(keys: readonly CountedKey[]): number | null {
    const nowMs = this.#monotonicMs();
    const usages = keys.map((counted) => ({
      ...counted,
      window: this.#findWindow(counted.key, nowMs),
    }));
    for (const { factor, window } of usages) {
      if (window !== undefined && window.count >= this.#maxPerWindow * factor) {
        return window.startMs + this.#windowMs - nowMs;
      }
    }
    for (const { key, window } of usages) {
      if (window === undefined) {
        this.#windows.set(key, { startMs: nowMs, count: 1 });
      } else {
        window.count += 1;
      }
    }
    return null;
  }

  getCount(key: string): number {
    return this.#findWindow(key, this.#monotonicMs())?.count ?? 0;
  }

  #findWindow(key: string, nowMs: number) {
    const window = this.#windows.get(key);
    return window !== undefined && nowMs < window.startMs + this.#windowMs ? window : undefined;
  }
}

/** A public key, or one of the prefixes of an address. */
export interface CountedKey {
  key: string;
  /** Multiplies the limit, because several clients share the key. */
  factor: number;
}
