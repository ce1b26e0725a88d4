import type { Clock } from '../domain/clock.ts';
import { HISTORY_DAYS } from '../domain/history.ts';
import type { Store } from '../store/store.ts';

const DAY_MS = 24 * 60 * 60_000;

/** Rows that are forgotten in one statement: it holds up nothing for more than a moment. */
const LOT = 500;

/** How often it is to be looked for what is old enough. */
export const PRUNE_INTERVAL_MS = 10 * 60_000;

/**
 * Forgets what happened to quotes and receipts long ago, what was written with invoices that ended unpaid,
 * and purchases that came to nothing. All else stays.
 */
export class PruneHistory {
  readonly #store: Prunable;
  readonly #clock: Clock;

  constructor(store: Prunable, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /**
   * Forgets all that is older than {@link HISTORY_DAYS} by the clock of this process, and but for purchases
   * by the database's as well; in small lots, until told to stop.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { events, purchases, quotes, zapReceipts } = this.#store;
    const beforeMs = this.#clock() - HISTORY_DAYS * DAY_MS;
    await repeat(() => events.prune(beforeMs, LOT), signal);
    await repeat(() => purchases.pruneUndone(beforeMs, LOT), signal);
    await repeat(() => quotes.forgetWords(beforeMs, LOT), signal);
    await repeat(() => zapReceipts.prune(beforeMs, LOT), signal);
    await repeat(() => zapReceipts.pruneRelays(beforeMs, LOT), signal);
  }
}

/** What grows without an end. */
interface Prunable {
  events: Pick<Store['events'], 'prune'>;
  purchases: Pick<Store['purchases'], 'pruneUndone'>;
  quotes: Pick<Store['quotes'], 'forgetWords'>;
  zapReceipts: Pick<Store['zapReceipts'], 'prune' | 'pruneRelays'>;
}

async function repeat(prune: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  let isMore = true;
  while (isMore && !signal.aborted) {
    isMore = await prune();
  }
}
