import { LRUCache } from 'lru-cache';

const WINDOW_MS = 60_000;

interface Window {
  startMs: number;
  count: number;
}

/**
 * Counts what each key does in a minute, starting at its first request, and rejects what exceeds a limit. Rejected
 * requests count towards the limit but do not extend the window.
 */
export class FixedWindowCounter {
  readonly #windows: LRUCache<string, Window>;
  readonly #max: number;
  readonly #monotonicMs: () => number;

  /**
   * @param max per window, at least 1
   * @param maxKeys the least recently used keys beyond it are dropped, and start a new window
   */
  constructor(max: number, maxKeys: number, monotonicMs: () => number) {
    this.#windows = new LRUCache({ max: maxKeys });
    this.#max = max;
    this.#monotonicMs = monotonicMs;
  }

  /** Counts a request. @returns the milliseconds until the key may retry, or null if the request is accepted */
  count(key: string): number | null {
    const nowMs = this.#monotonicMs();
    const window = this.#windows.get(key);
    if (window === undefined || nowMs >= window.startMs + WINDOW_MS) {
      this.#windows.set(key, { startMs: nowMs, count: 1 });
      return null;
    }
    window.count += 1;
    return window.count <= this.#max ? null : window.startMs + WINDOW_MS - nowMs;
  }
}

/** Counts by key. A key with a count of zero takes no memory. */
export class Counts {
  readonly #counts = new Map<string, number>();

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  add(key: string): void {
    this.#counts.set(key, this.of(key) + 1);
  }

  remove(key: string): void {
    const left = this.of(key) - 1;
    if (left > 0) {
      this.#counts.set(key, left);
    } else {
      this.#counts.delete(key);
    }
  }
}
