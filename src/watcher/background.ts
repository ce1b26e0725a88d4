/**
 * Work that repeats in the background: it waits after it finishes and never overlaps.
 *
 * `run()` does one round at once, so that a test, or news that cannot wait, needs no timer.
 */
export class Background {
  readonly #work: (signal: AbortSignal) => Promise<void>;
  readonly #intervalMs: number;
  readonly #onError: (error: unknown) => void;
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;

  constructor(options: {
    work: (signal: AbortSignal) => Promise<void>;
    intervalMs: number;
    /** Told of a round that failed; the next one comes all the same. */
    onError: (error: unknown) => void;
  }) {
    this.#work = options.work;
    this.#intervalMs = options.intervalMs;
    this.#onError = options.onError;
  }

  /** Begins with a first round at once. */
  start(): void {
    void this.run();
  }

  /** Does a round now, or joins the one that is under way. */
  run(): Promise<void> {
    this.#running ??= this.#round();
    return this.#running;
  }

  /** Resolves when the round under way, if any, has ended; there is none afterwards. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#timer ?? undefined);
    await this.#running;
  }

  async #round(): Promise<void> {
    clearTimeout(this.#timer ?? undefined);
    try {
      if (!this.#stopping.signal.aborted) {
        await this.#work(this.#stopping.signal);
      }
    } catch (error) {
      this.#onError(error);
    } finally {
      this.#running = null;
      if (!this.#stopping.signal.aborted) {
        this.#timer = setTimeout(() => void this.run(), this.#intervalMs);
      }
    }
  }
}
