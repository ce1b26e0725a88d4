import { createDatabaseJob } from './background-job.ts';
import type { Clock } from './clock.ts';
import { deleteOldRows, TABLES_WITH_RETENTION } from './database/retention-store.ts';
import type { Db } from './database/transaction.ts';
import type { Logger } from './log.ts';
import { claimEventsToLog } from './recipients/audit-store.ts';
import { giveUpOverdueDeliveries, pruneZapRequests } from './zaps/zap-receipt-store.ts';

/** Rows per statement. Small, so that no statement holds its locks for long. */
const BATCH_SIZE = 500;

interface JobContext {
  db: Db;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

export function createMaintenanceJob(context: JobContext) {
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

/**
 * Writes the audit trail to the log of the service, also what operator commands did while it was stopped. Each event is
 * logged by one process, within seconds after its transaction was committed.
 */
export function createAuditLogJob(context: JobContext) {
  const { db, log } = context;
  const work = async (signal: AbortSignal) => {
    let count = BATCH_SIZE;
    while (count === BATCH_SIZE && !signal.aborted) {
      const events = await claimEventsToLog(db, BATCH_SIZE);
      for (const { id: _, atMs, ...event } of events) {
        const at = new Date(atMs);
        log.info({ event: 'audit_event', at, ...event }, 'an operator or a user has changed data');
      }
      count = events.length;
    }
  };
  const message = 'changes could not be read from the database';
  const failure = { event: 'audit_log_failed', message };
  return createDatabaseJob({ work, intervalMs: 2_000 }, failure, context);
}
