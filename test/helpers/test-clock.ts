/** A manual clock. Milliseconds since 1970. */
export class TestClock {
  nowMs: number;

  /** @param nowMs the start; use the real time if other code signs events */
  constructor(nowMs = Date.now()) {
    this.nowMs = nowMs;
  }

  /** Returns the time; bound, so that it can be passed as a function. */
  readonly now = (): number => this.nowMs;

  advance(ms: number): void {
    this.nowMs += ms;
  }
}
