import { sql } from 'kysely';
import { vi } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import type { Schema } from '../../src/store/schema.ts';

/** A place at which a process is stopped, to be killed there. */
export interface Stop {
  /** Resolves when it is reached. */
  reached: Promise<unknown>;
  /** Removes what is in the way. */
  clear: () => unknown;
}

/** A busy machine may take this long to reach the place. */
const REACHED_WITHIN_MS = 60_000;

/**
 * Locks a table against writes until `clear`, which waits until the server has noticed that the process
 * is gone.
 *
 * @param write part of the statement to be stopped; others may wait as well
 */
export async function stopWrites(
  { db }: Database,
  table: keyof Schema,
  write: string,
): Promise<Stop> {
  const locked = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const holding = db.transaction().execute(async (tx) => {
    await sql`lock table ${sql.table(table)} in exclusive mode`.execute(tx);
    locked.resolve();
    await released.promise;
  });
  await locked.promise;
  const backends = async (condition: ReturnType<typeof sql>) => {
    const { rows } = await sql`
      select pid from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and ${condition}
    `.execute(db);
    return rows.length;
  };
  const isWaiting = sql`wait_event_type = 'Lock' and position(${write} in query) > 0`;
  const isBusy = sql`xact_start is not null`;
  return {
    reached: waitUntil(async () => (await backends(isWaiting)) > 0),
    clear: async () => {
      released.resolve();
      await holding;
      await waitUntil(async () => (await backends(isBusy)) === 0);
    },
  };
}

/** Waits until a condition holds. @throws if it does not within a minute */
export async function waitUntil(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  await vi.waitUntil(isTrue, { timeout: REACHED_WITHIN_MS, interval: 50 });
}
