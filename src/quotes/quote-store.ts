import { hash } from 'node:crypto';
import { sql } from 'kysely';
import type { QuoteState } from '../database/schema.ts';
import { jsonRows, toFlag } from '../database/sql.ts';
import type { Db } from '../database/transaction.ts';

/** A quote that a mint has just created. Times in milliseconds since 1970. */
export interface NewQuote {
  mintUrl: string;
  quoteId: string;
  pubkey: string;
  request: string;
  amountSat: number;
  isLocked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  verifyToken: string;
  paymentHash: string;
  watchUntilMs: number;
  /** Keyed hashes of the prefixes of the payer's address, hex, the shortest prefix first. */
  addressHashes: string | null;
  /** The tag of the address (LUD-16). */
  tag: string | null;
  /** The payer's comment (LUD-12). */
  comment: string | null;
  /** The payer's signed event, byte for byte (NIP-57). */
  zapRequest: string | null;
}

/** What a payer may know about a quote. */
export interface VerifiableQuote
  extends Pick<NewQuote, 'pubkey' | 'request' | 'amountSat' | 'expiresAtMs'> {
  state: QuoteState;
}

const NEW_QUOTE_COLUMNS = {
  mint_url: 'text',
  quote_id: 'text',
  pubkey: 'text',
  request: 'text',
  amount_sat: 'bigint',
  locked: 'bigint',
  created_at: 'bigint',
  expires_at: 'bigint',
  verify_token_hash: 'text',
  payment_hash: 'text',
  watch_until: 'bigint',
  address_hashes: 'text',
  tag: 'text',
  comment: 'text',
  zap_request: 'text',
} as const;

/** Stores quotes. Returns their row ids in order; null for a quote whose id is already stored for its mint. */
export async function insertQuotes(
  db: Db,
  quotes: readonly NewQuote[],
): Promise<(number | null)[]> {
  // Sorted, because two processes that insert the same ids in different orders would deadlock.
  const sorted = quotes.toSorted((one, other) =>
    compareStrings(toQuoteKey(one), toQuoteKey(other)),
  );
  const rows = sorted.map((quote) => ({
    mint_url: quote.mintUrl,
    quote_id: quote.quoteId,
    pubkey: quote.pubkey,
    request: quote.request,
    amount_sat: quote.amountSat,
    locked: toFlag(quote.isLocked),
    created_at: quote.createdAtMs,
    expires_at: quote.expiresAtMs,
    verify_token_hash: hash('sha256', quote.verifyToken),
    payment_hash: quote.paymentHash,
    watch_until: quote.watchUntilMs,
    address_hashes: quote.addressHashes,
    tag: quote.tag,
    comment: quote.comment,
    zap_request: quote.zapRequest,
  }));
  const columns = sql.join(Object.keys(NEW_QUOTE_COLUMNS).map((column) => sql.ref(column)));
  const inserted = await sql<{ id: number; mintUrl: string; quoteId: string }>`
    insert into quotes (${columns}, state)
    select ${columns}, 'UNPAID' from ${jsonRows(db, NEW_QUOTE_COLUMNS, rows)} as added
    where true
    on conflict (mint_url, quote_id) do nothing
    returning id, mint_url as "mintUrl", quote_id as "quoteId"
  `.execute(db);
  const ids = new Map(inserted.rows.map((row) => [toQuoteKey(row), row.id]));
  return quotes.map((quote) => {
    const id = ids.get(toQuoteKey(quote)) ?? null;
    // If two of these quotes have the same id, only the first one was stored.
    ids.delete(toQuoteKey(quote));
    return id;
  });
}

/** Finds a quote by the token of its verify URL (LUD-21). Only the hash of the token is stored. */
export async function findQuoteByVerifyToken(
  db: Db,
  token: string,
): Promise<VerifiableQuote | null> {
  const row = await db
    .selectFrom('quotes')
    .select(['pubkey', 'request', 'state', 'amount_sat as amountSat', 'expires_at as expiresAtMs'])
    .where('verify_token_hash', '=', hash('sha256', token))
    .executeTakeFirst();
  return row ?? null;
}

function toQuoteKey({ mintUrl, quoteId }: Pick<NewQuote, 'mintUrl' | 'quoteId'>): string {
  return `${mintUrl} ${quoteId}`;
}

function compareStrings(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
