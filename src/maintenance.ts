import { BackgroundJob } from './background-job.ts';
import type { Clock } from './clock.ts';
import type { Db } from './database/transaction.ts';
import type { Logger } from './log.ts';
import { pruneUnusedMints } from './mints/mint-store.ts';
import { pruneNotifications } from './notifications/outbox-store.ts';
import { pruneQuoteEvents } from './quotes/quote-event-store.ts';
import { pruneAuditEvents } from './recipients/audit-store.ts';
import { pruneFailedPurchases } from './usernames/purchase-store.ts';
import {
  giveUpOverdueDeliveries,
  pruneRelays,
  pruneZapReceipts,
  pruneZapRequests,
} from './zaps/zap-receipt-store.ts';

/** Rows per statement. Small, so that no statement holds its locks for long. */
const BATCH_SIZE = 500;

interface MaintenanceOptions {
  db: Db;
  hasNotifications: boolean;
  clock: Clock;
  log: Logger;
}

export function createMaintenanceJob({ db, hasNotifications, clock, log }: MaintenanceOptions) {
  return new BackgroundJob({
    work: (signal) => runMaintenance(db, clock(), signal, { hasNotifications }),
    intervalMs: 10 * 60_000,
    onError: (error) =>
      log.warn(
        { event: 'database_maintenance_failed', err: error },
        'database maintenance failed; will retry',
      ),
  });
}

/** Gives up overdue deliveries of zap receipts and deletes old data, in small batches, until the signal aborts. */
export async function runMaintenance(
  db: Db,
  nowMs: number,
  signal: AbortSignal,
  { hasNotifications }: { hasNotifications: boolean },
): Promise<void> {
  // Each processes one batch and returns whether more rows may be left.
  for (const processBatch of [
    () => giveUpOverdueDeliveries(db, nowMs, BATCH_SIZE),
    () => pruneQuoteEvents(db, BATCH_SIZE),
    ...(hasNotifications ? [() => pruneNotifications(db, BATCH_SIZE)] : []),
    () => pruneFailedPurchases(db, BATCH_SIZE),
    () => pruneZapReceipts(db, BATCH_SIZE),
    () => pruneZapRequests(db, BATCH_SIZE),
    () => pruneRelays(db, BATCH_SIZE),
    () => pruneUnusedMints(db, BATCH_SIZE),
    () => pruneAuditEvents(db, BATCH_SIZE),
  ]) {
    let hasMore = true;
    while (hasMore && !signal.aborted) {
      hasMore = await processBatch();
    }
  }
}
