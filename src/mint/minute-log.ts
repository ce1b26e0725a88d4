import { HIGHEST_CEILING, WINDOW_MS } from './learnt-limit.ts';

/**
 * When something happened in the minute up to the last time; no more of it than a ceiling can be.
 * Milliseconds since 1970.
 */
export class MinuteLog {
  #times: number[] = [];

  /** The last time; null before the first. */
  get last(): number | null {
    return this.#times.at(-1) ?? null;
  }

  /** @param times how often it happened now */
  add(now: number, times = 1): void {
    this.noticeSetBack(now);
    for (let time = 0; time < times; time += 1) {
      this.#times.push(now);
    }
    while (this.#times.length > HIGHEST_CEILING || (this.#times[0] ?? now) <= now - WINDOW_MS) {
      this.#times.shift();
    }
  }

  /** Takes back what did not happen after all. */
  remove(at: number): void {
    const index = this.#times.lastIndexOf(at);
    if (index >= 0) {
      this.#times.splice(index, 1);
    }
  }

  /** How often it happened in the minute up to a time. */
  count(time: number): number {
    const first = this.#times.findIndex((at) => at > time - WINDOW_MS);
    return first < 0 ? 0 : this.#times.length - first;
  }

  /**
   * When there is room for another in the minute up to it.
   *
   * @param most in a minute, at least 1
   * @returns 0 where there always is
   */
  opensAt(most: number): number {
    const first = this.#times.at(-most);
    return first === undefined ? 0 : first + WINDOW_MS;
  }

  /** Where the clock was set back, nothing happened later than now. */
  noticeSetBack(now: number): void {
    if ((this.last ?? 0) > now) {
      this.#times = this.#times.map((time) => Math.min(time, now));
    }
  }
}
