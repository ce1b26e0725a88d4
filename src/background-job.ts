interface BackgroundJobOptions {
  work: (signal: AbortSignal) => Promise<void>;
  intervalMs: number;
  /** Called when a round fails; the job continues. */
  onError: (error: unknown) => void;
}

/** Repeats work with a pause between rounds, which never overlap. */
export class BackgroundJob {
  readonly #options: BackgroundJobOptions;
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | null = null;

  constructor(options: BackgroundJobOptions) {
    this.#options = options;
  }

  start(): void {
    void this.run();
  }

  /** Starts a round immediately, or returns the promise of the running one. */
  run(): Promise<void> {
    this.#running ??= this.#runRound();
    return this.#running;
  }

  /** Aborts the running round's signal and resolves when the round has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #runRound(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      if (!this.#stopping.signal.aborted) {
        await this.#options.work(this.#stopping.signal);
      }
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#running = null;
      if (!this.#stopping.signal.aborted) {
        this.#timer = setTimeout(() => void this.run(), this.#options.intervalMs);
      }
    }
  }
}
