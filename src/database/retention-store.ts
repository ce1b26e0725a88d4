import { sql } from 'kysely';
import { HISTORY_RETENTION_MS } from '../limits.ts';
import { columnInSubquery, lockRows, statementNow } from './sql.ts';
import type { Db } from './transaction.ts';

const DAY_MS = 24 * 60 * 60_000;

/** The tables whose old rows are deleted: the primary key, the column with the time, and the age in milliseconds. */
const RETENTION = {
  quote_events: ['id', 'at', HISTORY_RETENTION_MS],
  notifications: ['id', 'give_up_at', HISTORY_RETENTION_MS],
  username_purchases: ['id', 'closed_at', HISTORY_RETENTION_MS],
  zap_receipts: ['id', 'created_at', HISTORY_RETENTION_MS],
  relays: ['url', 'last_attempt_at', HISTORY_RETENTION_MS],
  mints: ['url', 'fetched_at', 7 * DAY_MS],
  audit_events: ['id', 'at', 365 * DAY_MS],
} as const;

export type TableWithRetention = keyof typeof RETENTION;

export const TABLES_WITH_RETENTION = Object.keys(RETENTION) as TableWithRetention[];

/** Only these rows of a table are deleted. */
const CONDITIONS: Partial<Record<TableWithRetention, ReturnType<typeof sql>>> = {
  username_purchases: sql`state = 'failed'`,
  mints: sql`
    not exists (select 1 from quotes where mint_url = mints.url and watch_until is not null)`,
};

/** Deletes up to `limit` old rows, except those that another transaction changes. Returns whether more may exist. */
export async function deleteOldRows(
  db: Db,
  table: TableWithRetention,
  limit: number,
): Promise<boolean> {
  const [key, time, maxAgeMs] = RETENTION[table];
  const old = sql`
    select ${sql.ref(key)} from ${sql.table(table)}
    where ${sql.ref(time)} < ${statementNow(db)} - ${maxAgeMs} and ${CONDITIONS[table] ?? sql`true`}
    order by ${sql.ref(time)} limit ${limit} ${lockRows(db, 'for update skip locked')}`;
  const { numAffectedRows } = await sql`
    delete from ${sql.table(table)} where ${columnInSubquery(db, key, old)}
  `.execute(db);
  return numAffectedRows === BigInt(limit);
}
