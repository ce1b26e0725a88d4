/** The database is not asked again before this, however many ask for metrics. */
const SHORTEST_PAUSE_MS = 10_000;

/** A reading that took long is followed by a pause that is so many times as long: it stays the lesser load. */
const PAUSE_FACTOR = 20;

/** Prometheus waits 10 s for an answer by default, and whoever stops a service as long for its end. */
const PATIENCE_MS = 2_000;

/** What was read last, and whether reading works. */
export interface Reading<Value> {
  /** Null where nothing was read yet. */
  value: Value | null;
  /** Whether the last attempt came to an end, and a good one. */
  isWell: boolean;
}

/**
 * Reads something costly for whoever asks, one reading at a time and with pauses between them, in which
 * the last one stands.
 */
export class PacedReading<Value> {
  readonly #read: () => Promise<Value>;
  readonly #onError: (error: unknown) => void;
  readonly #monotonicMs: () => number;
  readonly #patienceMs: number;
  #last: Reading<Value> = { value: null, isWell: false };
  #reading: Promise<void> | null = null;
  #nextAtMs = Number.NEGATIVE_INFINITY;

  /**
   * @param options.onError told why a reading failed
   * @param options.patienceMs so long an answer is waited for
   */
  constructor(options: {
    read: () => Promise<Value>;
    onError: (error: unknown) => void;
    monotonicMs: () => number;
    patienceMs?: number;
  }) {
    this.#read = options.read;
    this.#onError = options.onError;
    this.#monotonicMs = options.monotonicMs;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
  }

  /** What is known now: read anew, where it is time for that and it does not take too long. */
  async take(): Promise<Reading<Value>> {
    if (this.#reading === null && this.#monotonicMs() >= this.#nextAtMs) {
      this.#reading = this.#readOnce();
    }
    if (this.#reading !== null && !(await endsWithin(this.#reading, this.#patienceMs))) {
      return { ...this.#last, isWell: false };
    }
    return this.#last;
  }

  /** Resolves when none is under way, or the database does not answer it. */
  async idle(): Promise<void> {
    await (this.#reading && endsWithin(this.#reading, this.#patienceMs));
  }

  async #readOnce(): Promise<void> {
    const startedAtMs = this.#monotonicMs();
    try {
      this.#last = { value: await this.#read(), isWell: true };
    } catch (error) {
      this.#last = { ...this.#last, isWell: false };
      this.#onError(error);
    } finally {
      const endedAtMs = this.#monotonicMs();
      const pauseMs = Math.max(SHORTEST_PAUSE_MS, PAUSE_FACTOR * (endedAtMs - startedAtMs));
      this.#nextAtMs = endedAtMs + pauseMs;
      this.#reading = null;
    }
  }
}

async function endsWithin(work: Promise<void>, timeMs: number): Promise<boolean> {
  const { promise: isLate, resolve } = Promise.withResolvers<false>();
  const timer = setTimeout(() => resolve(false), timeMs);
  try {
    return await Promise.race([work.then(() => true), isLate]);
  } finally {
    clearTimeout(timer);
  }
}
