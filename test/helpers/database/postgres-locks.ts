import { sql } from 'kysely';
import pg from 'pg';
import { vi } from 'vitest';
import type { Database } from '../../../src/database/database.ts';
import { requirePostgresUrl, type TestDatabase } from './test-database.ts';

/** Waits until other connections to this PostgreSQL database wait for a lock. */
export async function waitForBlockedStatement({ db }: Database, count = 1): Promise<void> {
  const blocked = sql`
    select pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and wait_event_type = 'Lock'`;
  const isBlocked = async () => (await blocked.execute(db)).rows.length >= count;
  await vi.waitUntil(isBlocked, { timeout: 60_000, interval: 50 });
}

/**
 * Locks rows by a statement in an open transaction.
 *
 * @returns a function that ends the transaction, after another statement
 */
export async function lockRows(
  testDatabase: TestDatabase,
  lockStatement: string,
  values: readonly unknown[],
): Promise<(lastStatement?: string) => Promise<void>> {
  const client = new pg.Client({ connectionString: requirePostgresUrl(testDatabase) });
  client.on('error', () => undefined);
  await client.connect();
  await client.query('begin');
  await client.query(lockStatement, [...values]);
  return async (lastStatement = 'select 1') => {
    await client.query(lastStatement);
    await client.query('commit');
    await client.end();
  };
}
