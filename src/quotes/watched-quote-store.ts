import { type RawBuilder, sql } from 'kysely';
import { columnInSubquery, columnInValues, jsonRows, lockRows } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';
import type { QuoteStatus } from './quote-state.ts';
import { QUOTE_COLUMNS, type Quote } from './quote-store.ts';

/** What a watcher reads about a quote. */
export interface WatchedQuoteRow extends QuoteStatus {
  id: number;
  quoteId: string;
}

/** What to write to the row of a quote, which the transaction has locked. */
export interface QuoteChange extends Pick<Quote, 'id' | 'state' | 'watchUntilMs'> {
  /** Null unless the change is a new payment. `paidSeq` is its position in the recipient's list. */
  payment: { paidAtMs: number; paidSeq: number } | null;
}

export interface WatchedMint {
  mintUrl: string;
  /** The process whose lease it is; null if the mint is free. */
  ownerProcessId: string | null;
}

/** Returns every mint with watched quotes. Jumps from mint to mint in the index, so it reads one entry per mint. */
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

/** Returns the number of watched quotes by mint URL. */
export async function countWatchedByMint(db: Db, mintUrls: readonly string[]) {
  const rows = mintUrls.map((mint_url) => ({ mint_url }));
  const counted = await sql<{ mintUrl: string; count: number }>`
    select mint_url as "mintUrl", (
      select count(*) from quotes
      where quotes.mint_url = wanted.mint_url and watch_until is not null
    ) as count
    from ${jsonRows(db, { text: ['mint_url'] }, rows)} as wanted
  `.execute(db);
  return new Map(counted.rows.map(({ mintUrl, count }) => [mintUrl, count]));
}

export async function findMaxRowId(db: Db): Promise<number> {
  const quotes = db.selectFrom('quotes').select(({ fn }) => fn.max('id').as('maxId'));
  const { maxId } = await quotes.executeTakeFirstOrThrow();
  return maxId ?? 0;
}

/** Returns the watched quotes of all mints whose `quotes.id` is greater than `afterId`, up to `limit`, by id. */
export function listWatchedAfter(db: Db, afterId: number, limit: number) {
  return listWatched(db, sql`id > ${afterId} order by id limit ${limit}`);
}

/** Like {@link listWatchedAfter}, for one mint. */
export function listWatchedByMint(db: Db, mintUrl: string, afterId: number, limit: number) {
  const range = sql`mint_url = ${mintUrl} and id > ${afterId}`;
  return listWatched(db, sql`${range} order by mint_url, id limit ${limit}`);
}

async function listWatched(db: Db, range: RawBuilder<unknown>) {
  const { rows } = await sql<WatchedQuoteRow & { mintUrl: string }>`
    select id, mint_url as "mintUrl", quote_id as "quoteId", state,
      created_at as "createdAtMs", expires_at as "expiresAtMs", paid_at as "paidAtMs"
    from quotes where watch_until is not null and ${range}
  `.execute(db);
  return rows;
}

/** Returns the quotes with these ids at a mint. Leaves out unknown ids. */
export function findQuotesByQuoteId(db: Db, mintUrl: string, quoteIds: readonly string[]) {
  return selectByQuoteIds(db, mintUrl, quoteIds, sql``);
}

/** Like {@link findQuotesByQuoteId}, but locks the rows in a fixed order until the transaction ends. */
export function lockQuotesByQuoteId(tx: Tx, mintUrl: string, quoteIds: readonly string[]) {
  const lock = lockRows(tx, 'for no key update');
  return selectByQuoteIds(tx, mintUrl, quoteIds, sql`order by id ${lock}`);
}

async function selectByQuoteIds(
  db: Db,
  mintUrl: string,
  quoteIds: readonly string[],
  orderAndLock: RawBuilder<unknown>,
): Promise<Quote[]> {
  const wantedRows = quoteIds.map((quote_id) => ({ quote_id }));
  // One lookup per id; otherwise PostgreSQL may read all quotes of the mint.
  const ids = sql`
    select (select id from quotes where mint_url = ${mintUrl} and quote_id = wanted.quote_id)
    from ${jsonRows(db, { text: ['quote_id'] }, wantedRows)} as wanted`;
  const { rows } = await sql<Quote>`
    select ${QUOTE_COLUMNS} from quotes where ${columnInSubquery(db, 'id', ids)} ${orderAndLock}
  `.execute(db);
  return rows;
}

/**
 * Writes changes to quotes. Deletes the hashes of the payer's address when a quote is paid or no longer watched, and the
 * payer's comment and zap request when it expires.
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
    text: ['state'],
    bigint: ['id', 'watch_until', 'paid_at', 'paid_seq'],
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
