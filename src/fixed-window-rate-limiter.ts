import { LRUCache } from 'lru-cache';

/** A public key, or one of the prefixes of an address. */
export interface CountedKey {
  key: string;
  /** The key may use this multiple of the limit, because several clients share it. */
  factor: number;
}

interface Window {
  startMs: number;
  count: number;
}

/** Limits the requests per key and window. A window starts with its first request. */
export class FixedWindowRateLimiter {
  readonly #windows: LRUCache<string, Window>;
  readonly #maxPerWindow: number;
  readonly #monotonicMs: () => number;
  readonly #windowMs: number;

  /**
   * @param maxPerWindow 0: no limit
   * @param maxKeys beyond this number, the limit of the least recently used keys starts anew
   */
  constructor(maxPerWindow: number, maxKeys: number, monotonicMs: () => number, windowMs = 60_000) {
    this.#windows = new LRUCache({ max: maxKeys });
    this.#maxPerWindow = maxPerWindow || Number.POSITIVE_INFINITY;
    this.#monotonicMs = monotonicMs;
    this.#windowMs = windowMs;
  }

  /**
   * A rejected request counts for no key, so an address cannot use up the limit of the prefixes that it shares.
   *
   * @returns the milliseconds until the client may retry, or null if the request is accepted
   */
  consume(keys: readonly CountedKey[]): number | null {
    const nowMs = this.#monotonicMs();
    const windows = keys.map(({ key }) => this.#findWindow(key, nowMs));
    for (const [i, { factor }] of keys.entries()) {
      const window = windows[i];
      if (window !== undefined && window.count >= this.#maxPerWindow * factor) {
        return window.startMs + this.#windowMs - nowMs;
      }
    }
    for (const [i, { key }] of keys.entries()) {
      const window = windows[i];
      if (window === undefined) {
        this.#windows.set(key, { startMs: nowMs, count: 1 });
      } else {
        window.count += 1;
      }
    }
    return null;
  }

  getCounts(keys: readonly CountedKey[]): number[] {
    const nowMs = this.#monotonicMs();
    return keys.map(({ key }) => this.#findWindow(key, nowMs)?.count ?? 0);
  }

  #findWindow(key: string, nowMs: number): Window | undefined {
    const window = this.#windows.get(key);
    return window !== undefined && nowMs < window.startMs + this.#windowMs ? window : undefined;
  }
}
