/**
 * Decides which failures of repeated work to log: the first of each outage. During an outage, some work may succeed,
 * such as reads while the disk is full. Therefore an outage ends only if work succeeds, and none has failed for 15 s.
 */
export class OutageTracker {
  readonly #monotonicMs: () => number;
  #lastFailureAtMs: number | null = null;
  #hasSucceededSinceFailure = false;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Returns whether this failure begins an outage. */
  recordFailure(): boolean {
    const isNewOutage =
      this.#lastFailureAtMs === null ||
      (this.#hasSucceededSinceFailure && this.#isLongSinceFailure());
    this.#lastFailureAtMs = this.#monotonicMs();
    this.#hasSucceededSinceFailure = false;
    return isNewOutage;
  }

  /** Returns whether this success ends an outage. */
  recordSuccess(): boolean {
    this.#hasSucceededSinceFailure = true;
    const endsOutage = this.#lastFailureAtMs !== null && this.#isLongSinceFailure();
    if (endsOutage) {
      this.#lastFailureAtMs = null;
    }
    return endsOutage;
  }

  #isLongSinceFailure(): boolean {
    // Longer than the pauses between retries.
    return this.#monotonicMs() - (this.#lastFailureAtMs ?? 0) >= 15_000;
  }
}
