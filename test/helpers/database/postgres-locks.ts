import { type RawBuilder, sql } from 'kysely';
import { vi } from 'vitest';
import type { Database } from '../../../src/database/database.ts';
import type { DatabaseSchema } from '../../../src/database/schema.ts';

/** A point in the service's work where a test blocks the service, to kill the service's process there. */
export interface BlockingPoint {
  reached: Promise<unknown>;
  unblock: () => unknown;
}

const WAITS_FOR_LOCK = sql`wait_event_type = 'Lock'`;

/**
 * Locks a table, so that all statements that write to it wait until `unblock` is called. After releasing the lock,
 * `unblock` waits until no transaction is open, because the server notices late that a killed process has
 * disconnected.
 *
 * @param sqlPart the point is reached when a statement that contains this text waits
 */
export async function blockWrites(
  database: Database,
  table: keyof DatabaseSchema,
  sqlPart: string,
): Promise<BlockingPoint> {
  const lockAcquired = Promise.withResolvers<void>();
  const releaseRequested = Promise.withResolvers<void>();
  const lockingTransaction = database.db.transaction().execute(async (tx) => {
    await sql`lock table ${sql.table(table)} in exclusive mode`.execute(tx);
    lockAcquired.resolve();
    await releaseRequested.promise;
  });
  await lockAcquired.promise;
  const isBlocked = sql`${WAITS_FOR_LOCK} and position(${sqlPart} in query) > 0`;
  return {
    reached: waitUntil(async () => (await findBackendPids(database, isBlocked)).length > 0),
    unblock: async () => {
      releaseRequested.resolve();
      await lockingTransaction;
      const isInTransaction = sql`xact_start is not null`;
      await waitUntil(async () => (await findBackendPids(database, isInTransaction)).length === 0);
    },
  };
}

export async function waitUntil(condition: () => boolean | Promise<boolean>): Promise<void> {
  await vi.waitUntil(condition, { timeout: 60_000, interval: 50 });
}

export async function waitForBlockedStatement(database: Database): Promise<void> {
  await waitUntil(async () => (await findBackendPids(database, WAITS_FOR_LOCK)).length > 0);
}

export function findListenerPids(database: Database): Promise<number[]> {
  return findBackendPids(database, sql`application_name = 'nutpost listening'`);
}

/** Returns the PIDs of the PostgreSQL processes that serve other connections to this database. */
async function findBackendPids(
  { db }: Database,
  condition: RawBuilder<unknown>,
): Promise<number[]> {
  const { rows } = await sql<{ pid: number }>`
    select pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and ${condition}`.execute(db);
  return rows.map(({ pid }) => pid);
}
