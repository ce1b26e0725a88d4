import type { Clock } from '../domain/clock.ts';
import type { Log } from '../log.ts';
import { parseLearntLimits, type RequestBudget } from '../mint/request-budget.ts';
import type { Store } from '../store/store.ts';

/**
 * Passes on what a process learnt of a mint's limits to the one that watches it next: a rest after 429
 * that it broke would begin anew.
 */
export class ShareLimits {
  readonly #mints: Pick<Store['mints'], 'recallLimits' | 'rememberLimits'>;
  readonly #budget: RequestBudget;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(parts: {
    mints: Pick<Store['mints'], 'recallLimits' | 'rememberLimits'>;
    budget: RequestBudget;
    clock: Clock;
    log: Log;
  }) {
    this.#mints = parts.mints;
    this.#budget = parts.budget;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /** Keeps what is known of a mint's limits. Never throws: it is only lost with this process then. */
  async keep(mintUrl: string): Promise<void> {
    const learnt = this.#budget.learnt(mintUrl, this.#clock());
    if (learnt === null) {
      return;
    }
    try {
      await this.#mints.rememberLimits(mintUrl, learnt);
    } catch (error) {
      this.#log.warn({ err: error, mintUrl }, 'what was learnt of a mint’s limits was not kept');
    }
  }

  /** Takes over what was kept. */
  async adopt(mintUrl: string): Promise<void> {
    const learnt = parseLearntLimits(await this.#mints.recallLimits(mintUrl));
    if (learnt !== null) {
      this.#budget.adopt(mintUrl, learnt, this.#clock());
    }
  }
}
