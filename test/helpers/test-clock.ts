/** A clock that stands until a test moves it. Milliseconds since 1970. */
export class TestClock {
  nowMs: number;

  /** @param nowMs where it begins; the real time lets signatures made elsewhere be good */
  constructor(nowMs = Date.now()) {
    this.nowMs = nowMs;
  }

  /** To be passed in. */
  readonly now = (): number => this.nowMs;

  advance(ms: number): void {
    this.nowMs += ms;
  }
}
