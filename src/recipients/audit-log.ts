import { BackgroundJob } from '../background-job.ts';
import type { Db } from '../database/transaction.ts';
import { retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import { OutageTracker } from '../outage-tracker.ts';
import { claimEventsToLog } from './audit-store.ts';

const BATCH_SIZE = 500;

/**
 * Writes the audit trail to the log of the service, also what operator commands did while it was stopped. Each event is
 * logged by one process, within seconds after its transaction was committed.
 */
export function createAuditLogJob({
  db,
  monotonicMs,
  log,
}: {
  db: Db;
  monotonicMs: () => number;
  log: Logger;
}): BackgroundJob {
  const outage = new OutageTracker(monotonicMs);
  return new BackgroundJob({
    work: async (signal) => {
      let count = BATCH_SIZE;
      while (count === BATCH_SIZE && !signal.aborted) {
        const events = await claimEventsToLog(db, BATCH_SIZE);
        for (const { id: _, atMs, ...event } of events) {
          const at = new Date(atMs);
          log.info(
            { event: 'audit_event', at, ...event },
            'an operator or a user has changed data',
          );
        }
        count = events.length;
      }
      outage.recordSuccess();
    },
    intervalMs: 2_000,
    onError: (error) => {
      const level = outage.recordFailure() ? retryLogLevel(error) : 'debug';
      log[level](
        { event: 'audit_log_failed', err: error },
        'changes could not be read from the database; will retry',
      );
    },
  });
}
