import { BackgroundJob } from './background-job.ts';
import type { Logger } from './log.ts';
import type { Store } from './store.ts';

/** How long `nutpost trace` can show what happened to a payment, and the zap requests of issued quotes are listed. */
export const HISTORY_RETENTION_DAYS = 30;
export const HISTORY_RETENTION_MS = HISTORY_RETENTION_DAYS * 24 * 60 * 60_000;

/** Short, because anyone can add mints, and the info of a pruned mint is requested again when it is needed. */
export const UNUSED_MINT_RETENTION_MS = 7 * 24 * 60 * 60_000;

const MAINTENANCE_INTERVAL_MS = 10 * 60_000;

/** Rows per statement. Small, so that no statement holds its locks for long. */
const PRUNE_BATCH_SIZE = 500;

/** Creates the job that prunes history and truncates SQLite's WAL file. */
export function createMaintenanceJob(deps: {
  store: Store;
  checkpoint: () => Promise<void>;
  clock: () => number;
  log: Logger;
}): BackgroundJob {
  const { store, checkpoint, clock, log } = deps;
  return new BackgroundJob({
    work: async (signal) => {
      await pruneHistory(store, clock(), signal);
      await checkpoint();
    },
    intervalMs: MAINTENANCE_INTERVAL_MS,
    onError: (error) =>
      log.warn(
        { event: 'database_maintenance_failed', err: error },
        'database maintenance failed; will retry',
      ),
  });
}

/**
 * Gives up overdue zap receipt deliveries and deletes old rows and zap requests, in small batches, until the signal
 * aborts.
 */
export async function pruneHistory(
  store: Store,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  for (const pruneBatch of [
    () => store.receiptDeliveries.giveUpOverdue(nowMs, PRUNE_BATCH_SIZE),
    () => store.quoteEvents.prune(PRUNE_BATCH_SIZE),
    () => store.purchases.pruneFailed(PRUNE_BATCH_SIZE),
    () => store.zapReceipts.pruneReceipts(PRUNE_BATCH_SIZE),
    () => store.zapReceipts.pruneZapRequests(PRUNE_BATCH_SIZE),
    () => store.zapReceipts.pruneRelays(PRUNE_BATCH_SIZE),
    () => store.mints.pruneUnused(PRUNE_BATCH_SIZE),
  ]) {
    let hasMore = true;
    while (hasMore && !signal.aborted) {
      hasMore = await pruneBatch();
    }
  }
}
