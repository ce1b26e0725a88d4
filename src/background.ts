/**
 * Repeats work in the background: waits after each round, and never overlaps. `run()` starts a round at
 * once, for tests and urgent work.
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
    /** Called when a round fails. The next one follows nevertheless. */
    onError: (error: unknown) => void;
  }) {
    this.#work = options.work;
    this.#intervalMs = options.intervalMs;
    this.#onError = options.onError;
  }

  start(): void {
    void this.run();
  }

  /** Starts a round now, or joins the one that is running. */
  run(): Promise<void> {
    this.#running ??= this.#round();
    return this.#running;
  }

  /** Starts no more rounds; resolves when the running one has ended. */
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
