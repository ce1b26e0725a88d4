import { type RawBuilder, sql } from 'kysely';
import { vi } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import type { Schema } from '../../src/database/schema.ts';

/** A point at which a process is stopped, to be killed there. */
export interface Stop {
  /** Resolves when a process waits there. */
  reached: Promise<unknown>;
  /** Removes the obstacle. */
  clear: () => unknown;
}

/** A busy machine may take this long. */
const TIMEOUT_MS = 60_000;

const IS_BUSY = sql`xact_start is not null`;
const IS_LISTENING = sql`application_name = 'nutpost listening'`;
const WAITS_FOR_LOCK = sql`wait_event_type = 'Lock'`;

/**
 * Locks a table against writes until `clear`, which waits until the server has noticed that the process
 * is gone.
 *
 * @param write part of the statement to be stopped; others may wait as well
 */
export async function stopWrites(
  database: Database,
  table: keyof Schema,
  write: string,
): Promise<Stop> {
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
    reached: waitUntil(async () => (await backends(database, isStopped)).length > 0),
    clear: async () => {
      released.resolve();
      await holding;
      await waitUntil(async () => (await backends(database, IS_BUSY)).length === 0);
    },
  };
}

/** Waits until a condition holds. @throws if it does not within a minute */
export async function waitUntil(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  await vi.waitUntil(isTrue, { timeout: TIMEOUT_MS, interval: 50 });
}

/** Waits until a statement waits for a lock. */
export async function waitForLock(database: Database): Promise<void> {
  await waitUntil(async () => (await backends(database, WAITS_FOR_LOCK)).length > 0);
}

/** Returns the server processes of the connections on which processes listen. */
export function listeningConnections(database: Database): Promise<number[]> {
  return backends(database, IS_LISTENING);
}

/** Other tests use other databases of the same server. */
async function backends({ db }: Database, condition: RawBuilder<unknown>): Promise<number[]> {
  const { rows } = await sql<{ pid: number }>`
    select pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and ${condition}`.execute(db);
  return rows.map(({ pid }) => pid);
}
