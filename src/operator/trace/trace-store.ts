import { type InferResult, sql } from 'kysely';
import { databaseNow } from '../../database/sql.ts';
import type { Db } from '../../database/transaction.ts';
import { COLLECT_BY } from '../../quotes/collect-deadline-store.ts';

export type TracedQuote = Awaited<ReturnType<typeof findTracedQuotes>>[number];

/** A range of the time of payment, or of creation for unpaid quotes, and an amount. Null sets no condition. */
export interface QuoteFilter {
  sinceMs: number | null;
  untilMs: number | null;
  amountSat: number | null;
}

/** Returns one quote, or several, newest first, if mints reuse a payment hash or a quote id. */
export async function findTracedQuotes(
  db: Db,
  column: 'payment_hash' | 'quote_id' | 'verify_token_hash',
  value: string,
  limit: number,
) {
  const rows = await selectQuotes(db)
    .where(column, '=', value)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
  return rows.map(convertFlags);
}

/** Returns a recipient's matching quotes, newest first. If few match, reads all quotes of the recipient. */
export async function searchQuotes(
  db: Db,
  pubkey: string,
  kind: 'paid' | 'unpaid',
  filter: QuoteFilter | null,
  limit: number,
): Promise<TracedQuote[]> {
  const { sinceMs = null, untilMs = null, amountSat = null } = filter ?? {};
  const timeColumn = kind === 'paid' ? 'paid_at' : 'created_at';
  const rows = await selectQuotes(db)
    .where('pubkey', '=', pubkey)
    .where('paid_at', kind === 'paid' ? 'is not' : 'is', null)
    .where(timeColumn, '>=', sinceMs ?? 0)
    .where(timeColumn, '<', untilMs ?? Number.MAX_SAFE_INTEGER)
    .$if(amountSat !== null, (query) => query.where('amount_sat', '=', amountSat ?? 0))
    // The order of an index. The planner uses it only with both keys, even if all values of `paid_at` are null.
    .orderBy('paid_at', 'desc')
    .orderBy('created_at', 'desc')
    .limit(limit)
    .execute();
  return rows.map(convertFlags);
}

export async function findMintLeaseHolder(db: Db, mintUrl: string) {
  const row = await db
    .selectFrom('mint_leases')
    .innerJoin('watch_processes', 'watch_processes.id', 'mint_leases.process_id')
    .select(['process_id', sql<number>`lease_expires_at - ${databaseNow(db)}`.as('remaining_ms')])
    .where('mint_url', '=', mintUrl)
    .executeTakeFirst();
  return row === undefined ? null : { processId: row.process_id, isAlive: row.remaining_ms > 0 };
}

function selectQuotes(db: Db) {
  return db
    .selectFrom('quotes')
    .select([
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
      COLLECT_BY.as('collectByMs'),
      'tag',
      sql<number>`case when zap_request is null then 0 else 1 end`.as('isZap'),
      sql<number>`case when comment is null then 0 else 1 end`.as('hasComment'),
    ]);
}

function convertFlags(row: InferResult<ReturnType<typeof selectQuotes>>[number]) {
  const { locked, isZap, hasComment } = row;
  return { ...row, locked: locked === 1, isZap: isZap === 1, hasComment: hasComment === 1 };
}
