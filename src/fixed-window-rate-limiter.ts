import { LRUCache } from 'lru-cache';

const WINDOW_MS = 60_000;

/** Limits the requests per key and minute. The minute starts with the first request. Rejections do not extend it. */
export class FixedWindowRateLimiter {
  readonly #windows: LRUCache<string, { startMs: number; count: number }>;
  readonly #maxPerMinute: number;
  readonly #monotonicMs: () => number;

  /** @param maxKeys beyond this number, the least recently used keys are forgotten, and their limit starts anew */
  constructor(maxPerMinute: number, maxKeys: number, monotonicMs: () => number) {
    this.#windows = new LRUCache({ max: maxKeys });
    this.#maxPerMinute = maxPerMinute;
    this.#monotonicMs = monotonicMs;
  }

  /** Counts a request. Returns the milliseconds until the key may retry, or null if the request is accepted. */
  consume(key: string): number | null {
    const nowMs = this.#monotonicMs();
    const window = this.#windows.get(key);
    if (window === undefined || nowMs >= window.startMs + WINDOW_MS) {
      this.#windows.set(key, { startMs: nowMs, count: 1 });
      return null;
    }
    window.count += 1;
    return window.count <= this.#maxPerMinute ? null : window.startMs + WINDOW_MS - nowMs;
  }
}
