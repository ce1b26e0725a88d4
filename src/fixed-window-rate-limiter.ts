import { LRUCache } from 'lru-cache';

/** Limits the requests per key and window. A window starts with its first request. */
export class FixedWindowRateLimiter {
  readonly #counts: LRUCache<string, number>;
  readonly #maxPerWindow: number;

  /**
   * @param maxPerWindow 0: no limit
   * @param maxKeys how many keys are counted; the least recently used ones are dropped and start anew
   */
  constructor(maxPerWindow: number, maxKeys: number, monotonicMs: () => number, windowMs = 60_000) {
    this.#maxPerWindow = maxPerWindow || Number.POSITIVE_INFINITY;
    this.#counts = new LRUCache({
      // `max` would reserve memory for all keys at once.
      maxSize: maxKeys,
      sizeCalculation: () => 1,
      // An entry expires when it is older than that.
      ttl: windowMs - 1,
      noUpdateTTL: true,
      ttlResolution: 0,
      perf: { now: monotonicMs },
    });
  }

  /**
   * Counts a request for all of its keys, or for none if one of them has reached its limit: an address cannot use up
   * the limit of the prefixes that it shares.
   *
   * @returns the milliseconds until the client may retry, or null if the request is accepted
   */
  consume(keys: readonly CountedKey[]): number | null {
    for (const { key, factor } of keys) {
      if (this.getCount(key) >= this.#maxPerWindow * factor) {
        return this.#counts.getRemainingTTL(key) + 1;
      }
    }
    for (const { key } of keys) {
      this.#counts.set(key, this.getCount(key) + 1);
    }
    return null;
  }

  getCount(key: string): number {
    return this.#counts.get(key) ?? 0;
  }
}

/** A public key, or one of the prefixes of an address. */
export interface CountedKey {
  key: string;
  /** Multiplies the limit, because several clients share the key. */
  factor: number;
}
