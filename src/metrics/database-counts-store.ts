import { sql } from 'kysely';
import type { QuoteState } from '../database/schema.ts';
import { isSqlite } from '../database/sql.ts';
import type { Db } from '../database/transaction.ts';

export interface WatchedQuoteCount {
  mintUrl: string;
  state: QuoteState;
  count: number;
}

export interface RelayOutboxCount {
  relayUrl: string;
  pendingDeliveries: number;
  earliestDueAtMs: number;
}

export interface PurchaseCounts {
  open: number;
  completed: number;
  failed: number;
  oldestOpenCreatedAtMs: number | null;
}

export interface DatabaseSize {
  bytes: number;
  /** About, if there are many. */
  users: number;
}

export interface DatabaseCounts {
  watchedQuotes: WatchedQuoteCount[];
  outboxes: RelayOutboxCount[];
  purchases: PurchaseCounts;
  size: DatabaseSize;
}

/** Runs one query after another, so that only one connection is in use. */
export async function readDatabaseCounts(db: Db, processId: string): Promise<DatabaseCounts> {
  return {
    watchedQuotes: await countWatchedQuotes(db, processId),
    outboxes: await countPendingDeliveries(db),
    purchases: await countPurchases(db),
    size: await readDatabaseSize(db),
  };
}

/** Counts the watched quotes of the mints that a process has leased. */
export async function countWatchedQuotes(db: Db, processId: string): Promise<WatchedQuoteCount[]> {
  const { rows } = await sql<WatchedQuoteCount>`
    select mint_url as "mintUrl", state, count(*) as count from quotes
    where watch_until is not null
      and mint_url in (select mint_url from mint_leases where process_id = ${processId})
    group by mint_url, state
  `.execute(db);
  return rows;
}

export async function countPendingDeliveries(db: Db): Promise<RelayOutboxCount[]> {
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

/** Reads no table that grows. */
export async function readDatabaseSize(db: Db): Promise<DatabaseSize> {
  const { rows } = await (isSqlite(db)
    ? // Users are never deleted.
      sql<DatabaseSize>`
          select page_count * page_size as bytes,
            (select coalesce(max(rowid), 0) from users) as users
          from pragma_page_count, pragma_page_size`
    : sql<DatabaseSize>`
          select pg_database_size(current_database()) as bytes,
            case when reltuples < 10000 then (select count(*) from users) else reltuples::bigint end as users
          from pg_class where oid = 'users'::regclass`
  ).execute(db);
  return rows[0] as DatabaseSize;
}

async function countPurchases(db: Db): Promise<PurchaseCounts> {
  const { rows } = await sql<PurchaseCounts>`
    select
      count(*) filter (where state = 'open') as open,
      count(*) filter (where state = 'completed') as completed,
      count(*) filter (where state = 'failed') as failed,
      min(created_at) filter (where state = 'open') as "oldestOpenCreatedAtMs"
    from username_purchases
  `.execute(db);
  return rows[0] ?? { open: 0, completed: 0, failed: 0, oldestOpenCreatedAtMs: null };
}
