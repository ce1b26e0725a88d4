import { sql } from 'kysely';
import { findNewestBackup } from '../database/newest-backup-store.ts';
import type { QuoteState } from '../database/schema.ts';
import { isSqlite } from '../database/sql.ts';
import type { Db } from '../database/transaction.ts';
import { findEarliestDueNotification } from '../notifications/outbox-store.ts';
import { COLLECT_BY } from '../quotes/collect-deadline-store.ts';

export type DatabaseCounts = Awaited<ReturnType<typeof readDatabaseCounts>>;

/** Runs one query after another, so that only one connection is in use. */
export async function readDatabaseCounts(
  db: Db,
  processId: string,
  nowMs: number,
  hasNotifications: boolean,
) {
  return {
    watchedQuotes: await countWatchedQuotes(db, processId, nowMs),
    outboxes: await countPendingDeliveries(db),
    purchases: await countPurchases(db),
    notificationsDueAtMs: hasNotifications ? await findEarliestDueNotification(db) : null,
    backupMadeAtMs: await findNewestBackup(db),
    ...(await readSizeAndUserCount(db)),
  };
}

export async function countWatchedQuotes(db: Db, processId: string, nowMs: number) {
  const { rows } = await sql<{
    mintUrl: string;
    state: QuoteState;
    count: number;
    pastDeadline: number;
  }>`
    select mint_url as "mintUrl", state, count(*) as count,
      count(*) filter (where ${COLLECT_BY} < ${nowMs}) as "pastDeadline"
    from quotes
    where watch_until is not null
      and mint_url in (select mint_url from mint_leases where process_id = ${processId})
    group by mint_url, state
  `.execute(db);
  return rows;
}

export async function countPendingDeliveries(db: Db) {
  return db
    .selectFrom('zap_receipt_deliveries')
    .select(({ fn }) => [
      'relay as relayUrl',
      fn.countAll<number>().as('pendingDeliveries'),
      fn.min<number>('next_attempt_at').as('earliestDueAtMs'),
    ])
    .where('next_attempt_at', 'is not', null)
    .groupBy('relay')
    .execute();
}

type SizeAndUserCount = { databaseBytes: number; userCount: number };

/** Avoids counting many users: PostgreSQL estimates them, and SQLite has few gaps in its rowids, as few are deleted. */
export async function readSizeAndUserCount(db: Db): Promise<SizeAndUserCount> {
  const query = isSqlite(db)
    ? sql<SizeAndUserCount>`
        select page_count * page_size as "databaseBytes",
          (select coalesce(max(rowid), 0) from users) as "userCount"
        from pragma_page_count, pragma_page_size`
    : sql<SizeAndUserCount>`
        select pg_database_size(current_database()) as "databaseBytes",
          case when reltuples < 10000 then (select count(*) from users) else reltuples::bigint end as "userCount"
        from pg_class where oid = 'users'::regclass`;
  const { rows } = await query.execute(db);
  return rows[0] ?? { databaseBytes: 0, userCount: 0 };
}

async function countPurchases(db: Db) {
  const { oldestOpenAtMs, ...byState } = await db
    .selectFrom('username_purchases')
    .select(({ fn }) => [
      fn.countAll<number>().filterWhere('state', '=', 'open').as('open'),
      fn.countAll<number>().filterWhere('state', '=', 'completed').as('completed'),
      fn.countAll<number>().filterWhere('state', '=', 'failed').as('failed'),
      fn.min<number | null>('created_at').filterWhere('state', '=', 'open').as('oldestOpenAtMs'),
    ])
    .executeTakeFirstOrThrow();
  return { byState, oldestOpenAtMs };
}
