import type { Clock } from '../domain/clock.ts';
import { HISTORY_DAYS } from '../domain/history.ts';
import type { Store } from '../store/store.ts';

const DAY_MS = 24 * 60 * 60_000;

/** Rows deleted by one statement, so that none holds its locks for more than a moment. */
const LOT = 500;

/** How often history is pruned. */
export const PRUNE_INTERVAL_MS = 10 * 60_000;

/** Deletes old history: events of quotes, zap receipts, and purchases that were undone. Gives up old deliveries. */
export class PruneHistory {
  readonly #store: Prunable;
  readonly #clock: Clock;

  constructor(store: Prunable, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /**
   * Deletes, in small batches until the signal is aborted, what is older than {@link HISTORY_DAYS}: by the clock of
   * this process, and except for purchases by the database's clock too.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { events, purchases, deliveries, zapReceipts } = this.#store;
    const beforeMs = this.#clock() - HISTORY_DAYS * DAY_MS;
    await repeat(() => deliveries.giveUpOverdue(this.#clock(), LOT), signal);
    await repeat(() => events.prune(beforeMs, LOT), signal);
    await repeat(() => purchases.pruneUndone(beforeMs, LOT), signal);
    await repeat(() => zapReceipts.prune(beforeMs, LOT), signal);
    await repeat(() => zapReceipts.pruneRelays(beforeMs, LOT), signal);
  }
}

/** What grows without bound. */
interface Prunable {
  events: Pick<Store['events'], 'prune'>;
  purchases: Pick<Store['purchases'], 'pruneUndone'>;
  deliveries: Pick<Store['deliveries'], 'giveUpOverdue'>;
  zapReceipts: Pick<Store['zapReceipts'], 'prune' | 'pruneRelays'>;
}

async function repeat(prune: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  let isMore = true;
  while (isMore && !signal.aborted) {
    isMore = await prune();
  }
}
