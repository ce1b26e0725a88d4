import { hash } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import { jsonRows } from '../database/sql.ts';
import type { Db } from '../database/transaction.ts';
import { BatchWriter } from './batch-writer.ts';
import type { QuoteStatus } from './quote-state.ts';

/** A row of `quotes`. Times in milliseconds since 1970. */
export interface Quote extends QuoteStatus {
  id: number;
  mintUrl: string;
  quoteId: string;
  pubkey: string;
  request: string;
  /** Hex; null if the invoice of an imported row is unreadable. */
  paymentHash: string | null;
  amountSat: number;
  locked: 0 | 1;
  /** Null if the quote is not watched. */
  watchUntilMs: number | null;
  tag: string | null;
  comment: string | null;
  /** The payer's signed event, byte for byte (NIP-57). */
  zapRequest: string | null;
}

/** A quote that a mint has just created. */
export interface NewQuote extends Omit<Quote, 'id' | 'state' | 'paidAtMs'> {
  paymentHash: string;
  watchUntilMs: number;
  verifyToken: string;
  /** Keyed hashes of the prefixes of the payer's address, hex, the shortest prefix first. */
  addressHashes: string | null;
}

const COLUMNS = {
  id: 'id',
  mintUrl: 'mint_url',
  quoteId: 'quote_id',
  pubkey: 'pubkey',
  request: 'request',
  paymentHash: 'payment_hash',
  amountSat: 'amount_sat',
  locked: 'locked',
  state: 'state',
  createdAtMs: 'created_at',
  expiresAtMs: 'expires_at',
  paidAtMs: 'paid_at',
  watchUntilMs: 'watch_until',
  tag: 'tag',
  comment: 'comment',
  zapRequest: 'zap_request',
} satisfies Record<keyof Quote, string>;

/** The columns of a {@link Quote}, for `select`. */
export const QUOTE_COLUMNS: RawBuilder<unknown> = sql.join(
  Object.entries(COLUMNS).map(([field, column]) => sql`${sql.ref(column)} as ${sql.ref(field)}`),
);

const INSERTED_FIELDS = {
  text: [
    'mintUrl',
    'quoteId',
    'pubkey',
    'request',
    'verifyTokenHash',
    'paymentHash',
    'addressHashes',
    'tag',
    'comment',
    'zapRequest',
  ],
  bigint: ['amountSat', 'locked', 'createdAtMs', 'expiresAtMs', 'watchUntilMs'],
} as const;

/** Stores quotes. Returns their row ids in order; null for a quote whose id is already stored for its mint. */
export async function insertQuotes(db: Db, quotes: readonly NewQuote[]) {
  // Sorted, because two processes that insert the same ids in different orders would deadlock.
  const sorted = quotes.toSorted((one, other) =>
    compareStrings(toQuoteKey(one), toQuoteKey(other)),
  );
  const rows = sorted.map(({ verifyToken, ...quote }) => ({
    ...quote,
    verifyTokenHash: hash('sha256', verifyToken),
  }));
  const fields = [...INSERTED_FIELDS.text, ...INSERTED_FIELDS.bigint];
  const columns = {
    ...COLUMNS,
    verifyTokenHash: 'verify_token_hash',
    addressHashes: 'address_hashes',
  };
  const inserted = await sql<{ id: number; mintUrl: string; quoteId: string }>`
    insert into quotes (state, ${sql.join(fields.map((field) => sql.ref(columns[field])))})
    select 'UNPAID', ${sql.join(fields.map((field) => sql.ref(field)))}
    from ${jsonRows(db, INSERTED_FIELDS, rows)} as added
    where true -- SQLite needs it before "on conflict"
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

function toQuoteKey({ mintUrl, quoteId }: { mintUrl: string; quoteId: string }): string {
  return `${mintUrl} ${quoteId}`;
}

function compareStrings(one: string, other: string): number {
  if (one === other) {
    return 0;
  }
  return one < other ? -1 : 1;
}

/**
 * Creates a function that stores a quote and resolves after the commit, like {@link insertQuotes}. Quotes that arrive
 * during a commit share the next one, because a commit, which waits for the disk, takes much longer than an insert.
 */
export function createQuoteWriter(db: Db): (quote: NewQuote) => Promise<number | null> {
  const writer = new BatchWriter<{ quote: NewQuote } & PromiseWithResolvers<number | null>>({
    write: async (batch) => {
      const quotes = batch.map(({ quote }) => quote);
      const ids = await insertQuotes(db, quotes);
      for (const [i, stored] of batch.entries()) {
        stored.resolve(ids[i] ?? null);
      }
    },
    onError: (error, batch) => {
      for (const failed of batch) {
        failed.reject(error);
      }
    },
    delayMs: 0,
    maxBatchSize: 100,
  });
  return (quote) => {
    const rowId = Promise.withResolvers<number | null>();
    writer.add({ quote, ...rowId });
    return rowId.promise;
  };
}

/** Returns what a payer may know about a quote. The token of its verify URL (LUD-21) is stored only as a hash. */
export async function findQuoteByVerifyToken(db: Db, token: string) {
  const row = await db
    .selectFrom('quotes')
    .select(['pubkey', 'request', 'state', 'comment', 'amount_sat as amountSat'])
    .select(['expires_at as expiresAtMs', 'paid_at as paidAtMs'])
    .where('verify_token_hash', '=', hash('sha256', token))
    .executeTakeFirst();
  return row ?? null;
}
