/** The wall clock of a machine, which may be wrong. Timers and durations do not depend on it. */
export class MachineClock {
  #offsetMs = 0;
  /** How many milliseconds the clock gains in each millisecond since {@link #driftsSinceMs}. */
  #drift = 0;
  #driftsSinceMs = 0;

  /** Returns how far the clock is ahead. */
  readOffsetMs(nowMs: number): number {
    return this.#offsetMs + this.#drift * (nowMs - this.#driftsSinceMs);
  }

  step(byMs: number): void {
    this.#offsetMs += byMs;
  }

  startDrift(drift: number, nowMs: number): void {
    this.#offsetMs = this.readOffsetMs(nowMs);
    this.#drift = drift;
    this.#driftsSinceMs = nowMs;
  }

  /** NTP sets the clock. It may drift again. */
  correct(nowMs: number): void {
    this.#offsetMs = 0;
    this.#driftsSinceMs = nowMs;
  }
}
