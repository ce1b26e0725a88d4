import { type BackgroundJob, createDatabaseJob } from '../background-job.ts';
import type { Db } from '../database/transaction.ts';
import type { Logger } from '../log.ts';
import { claimEventsToLog } from './audit-store.ts';

const BATCH_SIZE = 500;

/**
 * Writes the audit trail to the log of the service, also what operator commands did while it was stopped. Each event is
 * logged by one process, within seconds after its transaction was committed.
 */
export function createAuditLogJob(context: {
  db: Db;
  monotonicMs: () => number;
  log: Logger;
}): BackgroundJob {
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
