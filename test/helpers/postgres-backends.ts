import { type RawBuilder, sql } from 'kysely';
import { vi } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import type { DatabaseSchema } from '../../src/database/schema.ts';

/** A point at which a process blocks so that a test can kill it there. */
export interface BlockedWrite {
  /** Resolves when a process blocks there. */
  reached: Promise<unknown>;
  /** Removes the lock. */
  unblock: () => unknown;
}

/** Allows for a busy machine. */
const TIMEOUT_MS = 60_000;

const IS_IN_TRANSACTION = sql`xact_start is not null`;
const IS_LISTENING = sql`application_name = 'nutpost listening'`;
const WAITS_FOR_LOCK = sql`wait_event_type = 'Lock'`;

/**
 * Locks a table against writes until `clear`, which waits until the server has noticed that the process
 * exited.
 *
 * @param write part of the statement to block; other statements may block, too
 */
export async function blockWrites(
  database: Database,
  table: keyof DatabaseSchema,
  write: string,
): Promise<BlockedWrite> {
  const locked = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const holding = database.db.transaction().execute(async (tx) => {
    await sql`lock table ${sql.table(table)} in exclusive mode`.execute(tx);
    locked.resolve();
    await released.promise;
  });
  await locked.promise;
  const isStopped = sql`${WAITS_FOR_LOCK} and position(${write} in query) > 0`;
  return {
    reached: waitUntil(async () => (await findBackendPids(database, isStopped)).length > 0),
    unblock: async () => {
      released.resolve();
      await holding;
      await waitUntil(
        async () => (await findBackendPids(database, IS_IN_TRANSACTION)).length === 0,
      );
    },
  };
}

/** Waits until a condition holds. @throws after a minute */
export async function waitUntil(condition: () => boolean | Promise<boolean>): Promise<void> {
  await vi.waitUntil(condition, { timeout: TIMEOUT_MS, interval: 50 });
}

/** Waits until a statement is blocked by a lock. */
export async function waitForBlockedStatement(database: Database): Promise<void> {
  await waitUntil(async () => (await findBackendPids(database, WAITS_FOR_LOCK)).length > 0);
}

/** Returns the server processes of LISTEN connections. */
export function findListenerPids(database: Database): Promise<number[]> {
  return findBackendPids(database, IS_LISTENING);
}

/** Other tests use other databases of the same server. */
async function findBackendPids(
  { db }: Database,
  condition: RawBuilder<unknown>,
): Promise<number[]> {
  const { rows } = await sql<{ pid: number }>`
    select pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and ${condition}`.execute(db);
  return rows.map(({ pid }) => pid);
}
