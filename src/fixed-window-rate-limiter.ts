import { LRUCache } from 'lru-cache';

const MINUTE_MS = 60_000;

/** Limits the requests per key and window. A window starts with its first request. Rejections do not extend it. */
export class FixedWindowRateLimiter {
  readonly #windows: LRUCache<string, { startMs: number; count: number }>;
  readonly #maxPerWindow: number;
  readonly #monotonicMs: () => number;
  readonly #windowMs: number;

  /**
   * @param maxPerWindow 0: no limit
   * @param maxKeys beyond this number, the least recently used keys are forgotten, and their limit starts anew
   */
  constructor(
    maxPerWindow: number,
    maxKeys: number,
    monotonicMs: () => number,
    windowMs = MINUTE_MS,
  ) {
    this.#windows = new LRUCache({ max: maxKeys });
    this.#maxPerWindow = maxPerWindow || Number.POSITIVE_INFINITY;
    this.#monotonicMs = monotonicMs;
    this.#windowMs = windowMs;
  }

  /** Returns how many requests the current window of the key has. */
  getCount(key: string): number {
    const window = this.#windows.peek(key);
    const isOver = window === undefined || this.#monotonicMs() >= window.startMs + this.#windowMs;
    return isOver ? 0 : window.count;
  }

  /** Counts a request. Returns the milliseconds until the key may retry, or null if the request is accepted. */
  consume(key: string): number | null {
    const nowMs = this.#monotonicMs();
    const window = this.#windows.get(key);
    if (window === undefined || nowMs >= window.startMs + this.#windowMs) {
      this.#windows.set(key, { startMs: nowMs, count: 1 });
      return null;
    }
    window.count += 1;
    return window.count <= this.#maxPerWindow ? null : window.startMs + this.#windowMs - nowMs;
  }
}
