import { createDatabaseJob } from './background-job.ts';
import type { Clock } from './clock.ts';
import { deleteOldRows, TABLES_WITH_RETENTION } from './database/retention-store.ts';
import type { Db } from './database/transaction.ts';
import type { Logger } from './log.ts';
import { giveUpOverdueDeliveries, pruneZapRequests } from './zaps/zap-receipt-store.ts';

/** Rows per statement. Small, so that no statement holds its locks for long. */
const BATCH_SIZE = 500;

export function createMaintenanceJob(context: {
  db: Db;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}) {
  const work = (signal: AbortSignal) => runMaintenance(context.db, context.clock(), signal);
  const failure = { event: 'database_maintenance_failed', message: 'database maintenance failed' };
  return createDatabaseJob({ work, intervalMs: 10 * 60_000 }, failure, context);
}

/** Gives up overdue deliveries of zap receipts and deletes old data, in small batches, until the signal aborts. */
export async function runMaintenance(db: Db, nowMs: number, signal: AbortSignal): Promise<void> {
  // Each processes one batch and returns whether more rows may be left.
  for (const processBatch of [
    () => giveUpOverdueDeliveries(db, nowMs, BATCH_SIZE),
    () => pruneZapRequests(db, BATCH_SIZE),
    ...TABLES_WITH_RETENTION.map((table) => () => deleteOldRows(db, table, BATCH_SIZE)),
  ]) {
    let hasMore = true;
    while (hasMore && !signal.aborted) {
      hasMore = await processBatch();
    }
  }
}
