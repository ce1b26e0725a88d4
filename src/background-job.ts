import { retryLogLevel } from './errors.ts';
import type { Logger } from './log.ts';
import { OutageTracker } from './outage-tracker.ts';

interface BackgroundJobOptions {
  work: (signal: AbortSignal) => Promise<void>;
  /** The pause after each round. */
  intervalMs: number;
  /** Called when a round fails; the job continues. */
  onError: (error: unknown) => void;
}

/** Repeats work in rounds, which never overlap: the pause starts when a round has ended. */
export class BackgroundJob {
  readonly #options: BackgroundJobOptions;
  readonly #stopController = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #currentRound: Promise<void> | null = null;

  constructor(options: BackgroundJobOptions) {
    this.#options = options;
  }

  start(): void {
    void this.run();
  }

  /** Starts a round immediately, or returns the promise of the current round. */
  run(): Promise<void> {
    this.#currentRound ??= this.#runRound();
    return this.#currentRound;
  }

  /** Handles the failure of work that a round has started, but does not wait for. */
  reportFailure(error: unknown): void {
    this.#options.onError(error);
  }

  /** Aborts the signal of the current round, and resolves when the round has ended. */
  async stop(): Promise<void> {
    this.#stopController.abort();
    clearTimeout(this.#timer);
    await this.#currentRound;
  }

  async #runRound(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      if (!this.#stopController.signal.aborted) {
        await this.#options.work(this.#stopController.signal);
      }
    } catch (error) {
      this.reportFailure(error);
    } finally {
      this.#currentRound = null;
      if (!this.#stopController.signal.aborted) {
        this.#timer = setTimeout(() => void this.run(), this.#options.intervalMs);
      }
    }
  }
}

/** Creates a job that uses the database. Of the failures of an outage, it logs all but the first at level `debug`. */
export function createDatabaseJob(
  { work, intervalMs }: Pick<BackgroundJobOptions, 'work' | 'intervalMs'>,
  failure: { event: string; message: string },
  { monotonicMs, log }: { monotonicMs: () => number; log: Logger },
): BackgroundJob {
  const outage = new OutageTracker(monotonicMs);
  return new BackgroundJob({
    work: async (signal) => {
      await work(signal);
      outage.recordSuccess();
    },
    intervalMs,
    onError: (err) => {
      const level = outage.recordFailure() ? retryLogLevel(err) : 'debug';
      log[level]({ event: failure.event, err }, `${failure.message}; will retry`);
    },
  });
}
