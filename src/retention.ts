import type { Store } from './store.ts';

/** Rows deleted by one statement, so that none holds its locks for more than a moment. */
const LOT = 500;

/** How often history is pruned. */
export const PRUNE_INTERVAL_MS = 10 * 60_000;

/**
 * Gives up old deliveries and deletes old history (events of quotes, zap receipts, and purchases that were undone) in
 * small batches until the signal is aborted.
 */
export async function pruneHistory(
  { events, purchases, deliveries, zapReceipts }: Prunable,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  await repeat(() => deliveries.giveUpOverdue(nowMs, LOT), signal);
  await repeat(() => events.prune(LOT), signal);
  await repeat(() => purchases.pruneUndone(LOT), signal);
  await repeat(() => zapReceipts.prune(LOT), signal);
  await repeat(() => zapReceipts.pruneRelays(LOT), signal);
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

/** How long history is kept: long enough for whoever asks where a payment is. */
export const HISTORY_DAYS = 30;
export const HISTORY_MS = HISTORY_DAYS * 24 * 60 * 60_000;
