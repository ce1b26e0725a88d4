import { LRUCache } from 'lru-cache';

const WINDOW_MS = 60_000;

/** Limits the requests per key and minute. Rejected requests count but do not extend the window. */
export class FixedWindowCounter {
  readonly #windows: LRUCache<string, { startMs: number; count: number }>;
  readonly #maxPerWindow: number;
  readonly #monotonicMs: () => number;

  /** @param maxKeys beyond it, the least recently used keys are evicted and start a new window */
  constructor(maxPerWindow: number, maxKeys: number, monotonicMs: () => number) {
    this.#windows = new LRUCache({ max: maxKeys });
    this.#maxPerWindow = maxPerWindow;
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
    return window.count <= this.#maxPerWindow ? null : window.startMs + WINDOW_MS - nowMs;
  }
}

/** Counts by key. Keys with a count of zero take no memory. */
export class KeyedCounter {
  readonly #counts = new Map<string, number>();

  get(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  increment(key: string): void {
    this.#counts.set(key, this.get(key) + 1);
  }

  decrement(key: string): void {
    const remaining = this.get(key) - 1;
    if (remaining > 0) {
      this.#counts.set(key, remaining);
    } else {
      this.#counts.delete(key);
    }
  }
}
