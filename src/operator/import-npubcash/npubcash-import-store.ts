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
  const columns = { text: ['mint_url', 'quote_id'] } as const;
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
  const columns = sql.join([...COLUMNS.text, ...COLUMNS.bigint].map((name) => sql.ref(name)));
  const { rows } = await sql<QuoteUpdate>`
    insert into quotes (${columns})
    select ${columns} from ${jsonRows(tx, COLUMNS, quotes.map(toRow))} as source
    returning id, pubkey, quote_id as "quoteId", paid_at as "listedAtMs"
  `.execute(tx);
  return rows.filter(({ listedAtMs }) => listedAtMs !== null);
}

const COLUMNS = {
  text: ['mint_url', 'quote_id', 'pubkey', 'request', 'payment_hash', 'state', 'zap_request'],
  bigint: [
    'amount_sat',
    'locked',
    'created_at',
    'expires_at',
    'paid_at',
    'paid_seq',
    'watch_until',
  ],
} as const;

type Column = (typeof COLUMNS)[keyof typeof COLUMNS][number];

function toRow(quote: ImportedQuote): Record<Column, string | number | null> {
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
