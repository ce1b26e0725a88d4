import { type ExpressionBuilder, sql } from 'kysely';
import type { DatabaseSchema, QuoteState } from '../../database/schema.ts';
import { databaseNow } from '../../database/sql.ts';
import type { Db } from '../../database/transaction.ts';

/** A quote as `nutpost trace` shows it. Times are in milliseconds since 1970. */
export interface TracedQuote {
  id: number;
  mintUrl: string;
  quoteId: string;
  pubkey: string;
  /** Hex; null if the invoice could not be decoded. */
  paymentHash: string | null;
  amountSat: number;
  state: QuoteState;
  locked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  paidAtMs: number | null;
  /** When the service stops polling the mint. Null: it no longer polls. */
  watchUntilMs: number | null;
  isZap: boolean;
  /** The tag of the address that was paid (LUD-16). */
  tag: string | null;
  /** Whether the payer sent a comment (LUD-12). Only the recipient may read it. */
  hasComment: boolean;
}

/** Selects quotes of a recipient; null selects all. */
export interface QuoteFilter {
  /** Compared with the time of payment, or of creation if the quote is unpaid; milliseconds since 1970. */
  sinceMs: number | null;
  untilMs: number | null;
  amountSat: number | null;
}

export interface MintLeaseHolder {
  processId: string;
  isAlive: boolean;
}

/** Returns the quotes with this value, newest first. There are several if mints reuse invoices or quote ids. */
export async function findTracedQuotes(
  db: Db,
  column: 'payment_hash' | 'quote_id' | 'verify_token_hash',
  value: string,
  limit: number,
): Promise<TracedQuote[]> {
  const rows = await selectQuotes(db)
    .where(column, '=', value)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
  return rows.map(toTracedQuote);
}

export async function countPayments(
  db: Db,
  pubkey: string,
): Promise<{ paymentCount: number; lastPaidAtMs: number | null }> {
  const counter = await db
    .selectFrom('users')
    .select(['paid_count as paymentCount', 'last_paid_at as lastPaidAtMs'])
    .where('pubkey', '=', pubkey)
    .executeTakeFirst();
  return counter ?? { paymentCount: 0, lastPaidAtMs: null };
}

/** Returns a recipient's matching payments, newest first. Reads all of them if few match. */
export function searchPayments(
  db: Db,
  pubkey: string,
  filter: QuoteFilter | null,
  limit: number,
): Promise<TracedQuote[]> {
  return searchQuotes(db, pubkey, true, filter, limit);
}

/** Returns a recipient's matching unpaid quotes, also expired ones, newest first. Reads all of them if few match. */
export function searchUnpaidQuotes(
  db: Db,
  pubkey: string,
  filter: QuoteFilter | null,
  limit: number,
): Promise<TracedQuote[]> {
  return searchQuotes(db, pubkey, false, filter, limit);
}

async function searchQuotes(
  db: Db,
  pubkey: string,
  isPaid: boolean,
  filter: QuoteFilter | null,
  limit: number,
): Promise<TracedQuote[]> {
  const rows = await selectQuotes(db)
    .where('pubkey', '=', pubkey)
    .where('paid_at', isPaid ? 'is not' : 'is', null)
    .where(matches(filter, isPaid ? 'paid_at' : 'created_at'))
    // The order of an index. The planner uses it only with both keys, even if all values of `paid_at` are null.
    .orderBy('paid_at', 'desc')
    .orderBy('created_at', 'desc')
    .limit(limit)
    .execute();
  return rows.map(toTracedQuote);
}

export async function findMintLeaseHolder(
  db: Db,
  mintUrl: string,
): Promise<MintLeaseHolder | null> {
  const row = await db
    .selectFrom('mint_leases')
    .innerJoin('watch_processes', 'watch_processes.id', 'mint_leases.process_id')
    .select(['process_id', sql<number>`lease_expires_at - ${databaseNow(db)}`.as('remaining_ms')])
    .where('mint_url', '=', mintUrl)
    .executeTakeFirst();
  return row === undefined ? null : { processId: row.process_id, isAlive: row.remaining_ms > 0 };
}

function selectQuotes(db: Db) {
  return db.selectFrom('quotes').select(QUOTE_COLUMNS);
}

const QUOTE_COLUMNS = [
  'id',
  'mint_url as mintUrl',
  'quote_id as quoteId',
  'pubkey',
  'payment_hash as paymentHash',
  'amount_sat as amountSat',
  'state',
  'locked',
  'created_at as createdAtMs',
  'expires_at as expiresAtMs',
  'paid_at as paidAtMs',
  'watch_until as watchUntilMs',
  'tag',
  sql<number>`case when zap_request is null then 0 else 1 end`.as('isZap'),
  sql<number>`case when comment is null then 0 else 1 end`.as('hasComment'),
] as const;

function matches(filter: QuoteFilter | null, timeColumn: 'paid_at' | 'created_at') {
  const { sinceMs = null, untilMs = null, amountSat = null } = filter ?? {};
  return ({ eb, and }: ExpressionBuilder<DatabaseSchema, 'quotes'>) =>
    and([
      ...(sinceMs === null ? [] : [eb(timeColumn, '>=', sinceMs)]),
      ...(untilMs === null ? [] : [eb(timeColumn, '<', untilMs)]),
      ...(amountSat === null ? [] : [eb('amount_sat', '=', amountSat)]),
    ]);
}

type FlagColumn = 'locked' | 'isZap' | 'hasComment';

function toTracedQuote(
  row: Omit<TracedQuote, FlagColumn> & Record<FlagColumn, number>,
): TracedQuote {
  const { locked, isZap, hasComment } = row;
  return { ...row, locked: locked === 1, isZap: isZap === 1, hasComment: hasComment === 1 };
}
