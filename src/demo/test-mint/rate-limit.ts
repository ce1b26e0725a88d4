/** The window measured on a real mint. */
const WINDOW_MS = 60_000;

interface Window {
  used: number;
  endsAtMs: number;
}

/** Counts requests in elastic windows, one for each name: a refused request starts its window anew. */
export class ElasticRateLimit {
  readonly #windows = new Map<string, Window>();

  /**
   * Counts one request.
   *
   * @param now milliseconds since 1970
   * @returns whether it may pass
   */
  admits(name: string, perMinute: number, now: number): boolean {
    const window = this.#windowOf(name, now);
    if (window.used < perMinute) {
      window.used += 1;
      return true;
    }
    window.endsAtMs = now + WINDOW_MS;
    return false;
  }

  #windowOf(name: string, now: number): Window {
    const open = this.#windows.get(name);
    if (open !== undefined && now < open.endsAtMs) {
      return open;
    }
    const fresh = { used: 0, endsAtMs: now + WINDOW_MS };
    this.#windows.set(name, fresh);
    return fresh;
  }
}
