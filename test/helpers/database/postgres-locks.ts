import { sql } from 'kysely';
import { vi } from 'vitest';
import type { Database } from '../../../src/database/database.ts';

/** Waits until other connections to this PostgreSQL database wait for a lock. */
export async function waitForBlockedStatement({ db }: Database, count = 1): Promise<void> {
  const blocked = sql`
    select pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and wait_event_type = 'Lock'`;
  const isBlocked = async () => (await blocked.execute(db)).rows.length >= count;
  await vi.waitUntil(isBlocked, { timeout: 60_000, interval: 50 });
}
