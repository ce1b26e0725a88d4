/** A clock that changes only when a test changes it. */
export class TestClock {
  /** Milliseconds since 1970. */
  nowMs: number;

  /** @param nowMs must be close to the real time if code without this clock signs events */
  constructor(nowMs = Date.now()) {
    this.nowMs = nowMs;
  }

  readonly now = (): number => this.nowMs;

  advance(ms: number): void {
    this.nowMs += ms;
  }
}
