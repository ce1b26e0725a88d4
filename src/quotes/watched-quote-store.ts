import { sql } from 'kysely';
import { columnInSubquery, columnInValues, jsonRows, lockRows } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';
import { QUOTE_FIELDS, type Quote, selectFields } from './quote-store.ts';

const WATCHED_FIELDS = [
  'id',
  'mintUrl',
  'quoteId',
  'state',
  'createdAtMs',
  'expiresAtMs',
  'paidAtMs',
] as const satisfies (keyof Quote)[];

export type WatchedQuote = Omit<Pick<Quote, (typeof WATCHED_FIELDS)[number]>, 'mintUrl'>;

/** A change to a quote whose row the transaction has locked. */
export interface QuoteChange extends Pick<Quote, 'id' | 'state' | 'watchUntilMs'> {
  /** The position of a new payment in the recipient's list. */
  payment: { paidAtMs: number; paidSeq: number } | null;
}

export interface WatchedMint {
  mintUrl: string;
  ownerProcessId: string | null;
}

/** Returns every mint with watched quotes. Reads one index entry per mint. */
export async function listWatchedMints(db: Db): Promise<WatchedMint[]> {
  const { rows } = await sql<WatchedMint>`
    with recursive watched (mint_url) as (
      select min(mint_url) from quotes where watch_until is not null
      union all
      select (
        select min(quotes.mint_url) from quotes
        where watch_until is not null and quotes.mint_url > watched.mint_url
      )
      from watched where watched.mint_url is not null
    )
    select watched.mint_url as "mintUrl", mint_leases.process_id as "ownerProcessId"
    from watched left join mint_leases on mint_leases.mint_url = watched.mint_url
    where watched.mint_url is not null
    order by watched.mint_url
  `.execute(db);
  return rows;
}

export async function countWatchedByMint(
  db: Db,
  mintUrls: readonly string[],
): Promise<Map<string, number>> {
  const rows = mintUrls.map((mint_url) => ({ mint_url }));
  const counted = await sql<{ mintUrl: string; count: number }>`
    select mint_url as "mintUrl", (
      select count(*) from quotes
      where quotes.mint_url = wanted.mint_url and watch_until is not null
    ) as count
    from ${jsonRows(db, { mint_url: 'text' }, rows)} as wanted
  `.execute(db);
  return new Map(counted.rows.map(({ mintUrl, count }) => [mintUrl, count]));
}

export async function findMaxRowId(db: Db): Promise<number> {
  const quotes = db.selectFrom('quotes').select(({ fn }) => fn.max('id').as('maxId'));
  const { maxId } = await quotes.executeTakeFirstOrThrow();
  return maxId ?? 0;
}

/** Returns the first watched quotes of all mints whose `quotes.id` is greater than `afterId`. */
export async function listWatchedAfter(db: Db, afterId: number, limit: number) {
  return await selectWatched(db, afterId, limit).orderBy('id').execute();
}

/** Like {@link listWatchedAfter}, for one mint. */
export async function listWatchedByMint(db: Db, mintUrl: string, afterId: number, limit: number) {
  const watched = selectWatched(db, afterId, limit).where('mint_url', '=', mintUrl);
  return await watched.orderBy('mint_url').orderBy('id').execute();
}

function selectWatched(db: Db, afterId: number, limit: number) {
  return db
    .selectFrom('quotes')
    .select(selectFields(WATCHED_FIELDS))
    .where('watch_until', 'is not', null)
    .where('id', '>', afterId)
    .limit(limit);
}

/** Leaves out unknown ids. */
export async function findQuotesByQuoteId(
  db: Db,
  mintUrl: string,
  quoteIds: readonly string[],
): Promise<Quote[]> {
  return await selectByQuoteIds(db, mintUrl, quoteIds).execute();
}

/** Like {@link findQuotesByQuoteId}, but locks the rows in a fixed order until the transaction ends. */
export async function lockQuotesByQuoteId(
  tx: Tx,
  mintUrl: string,
  quoteIds: readonly string[],
): Promise<Quote[]> {
  return await selectByQuoteIds(tx, mintUrl, quoteIds)
    .orderBy('id')
    .modifyEnd(lockRows(tx, 'for no key update'))
    .execute();
}

/**
 * Deletes the hashes of the payer's address when a quote is paid or no longer watched. If a quote expires, also deletes
 * the payer's comment and zap request.
 */
export async function applyQuoteChanges(tx: Tx, changes: readonly QuoteChange[]): Promise<void> {
  if (changes.length === 0) {
    return;
  }
  const rows = changes.map(({ id, state, watchUntilMs, payment }) => ({
    id,
    state,
    watch_until: watchUntilMs,
    paid_at: payment?.paidAtMs ?? null,
    paid_seq: payment?.paidSeq ?? null,
  }));
  const ids = rows.map(({ id }) => id);
  const columns = {
    id: 'bigint',
    state: 'text',
    watch_until: 'bigint',
    paid_at: 'bigint',
    paid_seq: 'bigint',
  } as const;
  // Materialized, so that SQLite parses the JSON only once.
  await sql`
    with changed as materialized (
      select * from ${jsonRows(tx, columns, rows)} as given
    )
    update quotes set
      state = changed.state,
      watch_until = changed.watch_until,
      paid_at = coalesce(changed.paid_at, quotes.paid_at),
      paid_seq = coalesce(changed.paid_seq, quotes.paid_seq),
      address_hashes = case
        when changed.state = 'INFLIGHT' and changed.watch_until is not null then quotes.address_hashes
      end,
      zap_request = case when changed.state = 'EXPIRED' then null else quotes.zap_request end,
      comment = case when changed.state = 'EXPIRED' then null else quotes.comment end
    from changed
    where quotes.id = changed.id and ${columnInValues(tx, 'quotes.id', 'bigint', ids)}
  `.execute(tx);
}

function selectByQuoteIds(db: Db, mintUrl: string, quoteIds: readonly string[]) {
  const rows = quoteIds.map((quote_id) => ({ quote_id }));
  const wanted = jsonRows(db, { quote_id: 'text' }, rows);
  // One lookup per id; otherwise PostgreSQL may read all quotes of the mint.
  const ids = sql`
    select (select id from quotes where mint_url = ${mintUrl} and quote_id = wanted.quote_id)
    from ${wanted} as wanted`;
  return db
    .selectFrom('quotes')
    .select(selectFields(QUOTE_FIELDS))
    .where(columnInSubquery(db, 'id', ids));
}
