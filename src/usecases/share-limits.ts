import type { Clock } from '../domain/clock.ts';
import type { Log } from '../log.ts';
import { parseLearntLimits, type RequestBudget } from '../mint/request-budget.ts';
import type { Store } from '../store/store.ts';
import { Gathering } from './gathering.ts';

/** Requests that are under way together are refused within a moment of each other. */
const GATHER_MS = 100;

/** More mints than refuse at one moment; what is not kept is learnt again by whoever needs it. */
const MAX_WAITING = 10_000;

/**
 * Passes on what a process learnt of a mint's limits to the one that watches it next: a rest after 429
 * that it broke would begin anew.
 */
export class ShareLimits {
  readonly #mints: Pick<Store['mints'], 'recallLimits' | 'rememberLimits'>;
  readonly #budget: RequestBudget;
  readonly #clock: Clock;
  /** Mints whose limits are to be kept. */
  readonly #gathering: Gathering<string>;

  constructor(parts: {
    mints: Pick<Store['mints'], 'recallLimits' | 'rememberLimits'>;
    budget: RequestBudget;
    clock: Clock;
    log: Log;
  }) {
    this.#mints = parts.mints;
    this.#budget = parts.budget;
    this.#clock = parts.clock;
    this.#gathering = new Gathering({
      write: (mintUrls) => this.#write(new Set(mintUrls)),
      gatherMs: GATHER_MS,
      maxWaiting: MAX_WAITING,
      failureMessage: 'could not keep what was learnt of mints’ limits',
      log: parts.log,
    });
  }

  /** Keeps what is known of a mint's limits, soon. */
  keep(mintUrl: string): void {
    this.#gathering.add(mintUrl);
  }

  /** Takes over what was kept. */
  async adopt(mintUrl: string): Promise<void> {
    const learnt = parseLearntLimits(await this.#mints.recallLimits(mintUrl));
    if (learnt !== null) {
      this.#budget.adopt(mintUrl, learnt, this.#clock());
    }
  }

  /** Keeps what is not kept yet. */
  stop(): Promise<void> {
    return this.#gathering.stop();
  }

  async #write(mintUrls: ReadonlySet<string>): Promise<void> {
    for (const mintUrl of mintUrls) {
      const learnt = this.#budget.learnt(mintUrl, this.#clock());
      if (learnt !== null) {
        await this.#mints.rememberLimits(mintUrl, learnt);
      }
    }
  }
}
