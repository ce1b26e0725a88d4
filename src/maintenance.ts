import { BackgroundJob } from './background-job.ts';
import type { Db } from './database/transaction.ts';
import type { Logger } from './log.ts';
import { pruneUnusedMints } from './mints/mint-store.ts';
import { pruneQuoteEvents } from './quotes/quote-event-store.ts';
import { pruneFailedPurchases } from './usernames/purchase-store.ts';
import {
  giveUpOverdueDeliveries,
  pruneRelays,
  pruneZapReceipts,
  pruneZapRequests,
} from './zaps/zap-receipt-store.ts';

const MAINTENANCE_INTERVAL_MS = 10 * 60_000;

/** Rows per statement. Small, so that no statement holds its locks for long. */
const PRUNE_BATCH_SIZE = 500;

export function createMaintenanceJob(context: {
  db: Db;
  clock: () => number;
  log: Logger;
}): BackgroundJob {
  const { db, clock, log } = context;
  return new BackgroundJob({
    work: (signal) => runMaintenance(db, clock(), signal),
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
export async function runMaintenance(db: Db, nowMs: number, signal: AbortSignal): Promise<void> {
  for (const pruneBatch of [
    () => giveUpOverdueDeliveries(db, nowMs, PRUNE_BATCH_SIZE),
    () => pruneQuoteEvents(db, PRUNE_BATCH_SIZE),
    () => pruneFailedPurchases(db, PRUNE_BATCH_SIZE),
    () => pruneZapReceipts(db, PRUNE_BATCH_SIZE),
    () => pruneZapRequests(db, PRUNE_BATCH_SIZE),
    () => pruneRelays(db, PRUNE_BATCH_SIZE),
    () => pruneUnusedMints(db, PRUNE_BATCH_SIZE),
  ]) {
    let hasMore = true;
    while (hasMore && !signal.aborted) {
      hasMore = await pruneBatch();
    }
  }
}
