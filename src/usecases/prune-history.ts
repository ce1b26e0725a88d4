import type { Clock } from '../domain/clock.ts';
import { HISTORY_DAYS } from '../store/quote-event-store.ts';
import type { Store } from '../store/store.ts';

export { HISTORY_DAYS };

const DAY_MS = 24 * 60 * 60_000;

/** Events that are forgotten in one statement: it holds up nothing for more than a moment. */
const LOT = 500;

/** How often it is to be looked for what is old enough. */
export const PRUNE_INTERVAL_MS = 10 * 60_000;

/** Forgets what happened to quotes long ago. The quotes themselves stay. */
export class PruneHistory {
  readonly #events: Pick<Store['events'], 'prune'>;
  readonly #clock: Clock;

  constructor(events: Pick<Store['events'], 'prune'>, clock: Clock) {
    this.#events = events;
    this.#clock = clock;
  }

  /**
   * Forgets all that is older than {@link HISTORY_DAYS} by the clock of this process and by the
   * database's, in small lots, until told to stop.
   */
  async run(signal: AbortSignal): Promise<void> {
    const beforeMs = this.#clock() - HISTORY_DAYS * DAY_MS;
    let isMore = true;
    while (isMore && !signal.aborted) {
      isMore = await this.#events.prune(beforeMs, LOT);
    }
  }
}
