/** Longer than the pauses between retries. */
const RECOVERY_MS = 15_000;

/**
 * Decides which failures of repeated work to log: the first of each outage. Part of the work may succeed during an
 * outage (on a full disk, reads do), so an outage ends with a success a while after the last failure.
 */
export class OutageTracker {
  readonly #monotonicMs: () => number;
  #lastFailureAtMs: number | null = null;
  #hasSucceededSince = false;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Returns whether this failure begins an outage. */
  recordFailure(): boolean {
    const isFirst =
      this.#lastFailureAtMs === null || (this.#hasSucceededSince && this.#isLongSinceFailure());
    this.#lastFailureAtMs = this.#monotonicMs();
    this.#hasSucceededSince = false;
    return isFirst;
  }

  /** Returns whether this success ends an outage. */
  recordSuccess(): boolean {
    this.#hasSucceededSince = true;
    const isOver = this.#lastFailureAtMs !== null && this.#isLongSinceFailure();
    this.#lastFailureAtMs = isOver ? null : this.#lastFailureAtMs;
    return isOver;
  }

  #isLongSinceFailure(): boolean {
    return this.#monotonicMs() - (this.#lastFailureAtMs ?? 0) >= RECOVERY_MS;
  }
}
