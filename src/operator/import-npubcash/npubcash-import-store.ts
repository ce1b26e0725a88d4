import { sql } from 'kysely';
import { jsonRows, toFlag } from '../../database/sql.ts';
import type { Tx } from '../../database/transaction.ts';
import type { QuoteUpdate } from '../../quotes/process-notifications.ts';
import type { ParsedNpubcashQuote } from './parse-npubcash-rows.ts';

interface QuoteKey {
  mintUrl: string;
  quoteId: string;
}

export interface ImportedQuote extends ParsedNpubcashQuote {
  /** The time of the payment and its position in the recipient's list; null if the quote is not paid. */
  payment: { paidAtMs: number; paidSeq: number } | null;
  /** Null if the quote is not watched. */
  watchUntilMs: number | null;
}

export async function findExistingQuotes(tx: Tx, quotes: readonly QuoteKey[]): Promise<QuoteKey[]> {
  const keys = quotes.map(({ mintUrl, quoteId }) => ({ mint_url: mintUrl, quote_id: quoteId }));
  const columns = { mint_url: 'text', quote_id: 'text' } as const;
  const { rows } = await sql<QuoteKey>`
    select mint_url as "mintUrl", quote_id as "quoteId"
    from ${jsonRows(tx, columns, keys)} as source
      join quotes using (mint_url, quote_id)
  `.execute(tx);
  return rows;
}

/** Returns an update for each inserted payment. */
export async function insertImportedQuotes(
  tx: Tx,
  quotes: readonly ImportedQuote[],
): Promise<QuoteUpdate[]> {
  const columns = sql.join(Object.keys(COLUMN_TYPES).map((name) => sql.ref(name)));
  const { rows } = await sql<QuoteUpdate>`
    insert into quotes (${columns})
    select ${columns} from ${jsonRows(tx, COLUMN_TYPES, quotes.map(toRow))} as source
    returning id, pubkey, quote_id as "quoteId", paid_at as "listedAtMs"
  `.execute(tx);
  return rows.filter(({ listedAtMs }) => listedAtMs !== null);
}

const COLUMN_TYPES = {
  mint_url: 'text',
  quote_id: 'text',
  pubkey: 'text',
  request: 'text',
  payment_hash: 'text',
  amount_sat: 'bigint',
  state: 'text',
  locked: 'bigint',
  created_at: 'bigint',
  expires_at: 'bigint',
  zap_request: 'text',
  paid_at: 'bigint',
  paid_seq: 'bigint',
  watch_until: 'bigint',
} as const;

function toRow(quote: ImportedQuote): Record<keyof typeof COLUMN_TYPES, string | number | null> {
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
