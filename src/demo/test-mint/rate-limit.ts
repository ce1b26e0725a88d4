/** The window measured on a real mint. */
const WINDOW_MS = 60_000;

interface Window {
  used: number;
  endsAtMs: number;
}

/**
 * Counts requests in elastic windows, one for each name: every request, admitted or not, starts its
 * window anew, so that only a quiet minute ends it.
 */
export class ElasticRateLimit {
  readonly #windows = new Map<string, Window>();

  /**
   * Counts one request.
   *
   * @param now milliseconds since 1970
   * @returns whether it may pass
   */
  admits(name: string, perMinute: number, now: number): boolean {
    const window = this.#windows.get(name);
    const usedBefore = window !== undefined && now < window.endsAtMs ? window.used : 0;
    const used = usedBefore + 1;
    this.#windows.set(name, { used, endsAtMs: now + WINDOW_MS });
    return used <= perMinute;
  }
}
