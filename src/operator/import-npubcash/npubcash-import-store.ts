import { sql } from 'kysely';
import type { QuoteState } from '../../database/schema.ts';
import { columnInValues, jsonRows, toFlag } from '../../database/sql.ts';
import type { Db } from '../../database/transaction.ts';
import type { QuoteUpdate } from '../../quotes/process-notifications.ts';

/** Each of the 14 columns of a row is a parameter. SQLite allows 32,766 parameters in a statement. */
const QUOTES_PER_INSERT = 1_000;

interface QuoteKey {
  mintUrl: string;
  quoteId: string;
}

/** A quote that an npubcash server created. Times are in milliseconds since 1970. */
export interface ImportedQuote extends QuoteKey {
  pubkey: string;
  request: string;
  paymentHash: string | null;
  amountSat: number;
  state: QuoteState;
  isLocked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  zapRequest: string | null;
  /** The payment time and the position in the recipient's list. Null if the quote is not paid. */
  payment: { paidAtMs: number; paidSeq: number } | null;
  /** When the service stops polling the mint. Null: the quote is not watched. */
  watchUntilMs: number | null;
}

/** Returns the keys of those quotes that are stored already. */
export async function findExistingQuotes(db: Db, quotes: readonly QuoteKey[]): Promise<QuoteKey[]> {
  const keys = quotes.map(({ mintUrl, quoteId }) => ({ mint_url: mintUrl, quote_id: quoteId }));
  const columns = { mint_url: 'text', quote_id: 'text' } as const;
  const { rows } = await sql<QuoteKey>`
    select mint_url as "mintUrl", quote_id as "quoteId"
    from ${jsonRows(db, columns, keys)} as source
      join quotes using (mint_url, quote_id)
  `.execute(db);
  return rows;
}

/** Stores quotes. Returns the paid ones. */
export async function insertImportedQuotes(
  db: Db,
  quotes: readonly ImportedQuote[],
): Promise<QuoteUpdate[]> {
  const insertedRows = [];
  for (let from = 0; from < quotes.length; from += QUOTES_PER_INSERT) {
    const rows = await db
      .insertInto('quotes')
      .values(quotes.slice(from, from + QUOTES_PER_INSERT).map(toRow))
      .returning(['id', 'pubkey', 'quote_id as quoteId', 'paid_at as listedAtMs'])
      .execute();
    insertedRows.push(...rows);
  }
  return insertedRows.filter(({ listedAtMs }) => listedAtMs !== null);
}

/** Returns those rows of the npubcash server that an earlier import has stored. */
export async function findImportedRows(
  db: Db,
  sourceRows: readonly string[],
): Promise<Set<string>> {
  const rows = await db
    .selectFrom('npubcash_imported_rows')
    .select('source_row')
    .where(columnInValues(db, 'source_row', 'text', sourceRows))
    .execute();
  return new Set(rows.map((row) => row.source_row));
}

export async function markRowImported(db: Db, sourceRow: string): Promise<void> {
  await db
    .insertInto('npubcash_imported_rows')
    .values({ source_row: sourceRow })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

function toRow(quote: ImportedQuote) {
  return {
    mint_url: quote.mintUrl,
    quote_id: quote.quoteId,
    pubkey: quote.pubkey,
    request: quote.request,
    payment_hash: quote.paymentHash,
    amount_sat: quote.amountSat,
    state: quote.state,
    locked: toFlag(quote.isLocked),
    created_at: quote.createdAtMs,
    expires_at: quote.expiresAtMs,
    zap_request: quote.zapRequest,
    paid_at: quote.payment?.paidAtMs ?? null,
    paid_seq: quote.payment?.paidSeq ?? null,
    watch_until: quote.watchUntilMs,
  };
}
