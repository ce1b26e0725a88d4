import { sql } from 'kysely';
import type { QuoteState } from '../database/schema.ts';
import { columnInValues, jsonRows } from '../database/sql.ts';
import type { Db } from '../database/transaction.ts';
import type { ObservedState } from '../mints/quote-responses.ts';
import type { QuoteUpdate } from './process-notifications.ts';

/** Of a quote. A mint that alternates between states must not fill the disk. */
const MAX_EVENTS_PER_KIND = 20;

export type RejectionReason = 'amount_or_invoice_mismatch' | 'state_regression';

export type ReceiptRefusal =
  | 'zap_request_for_other_key'
  | 'mint_not_in_zap_mints'
  /** Whether it already has a receipt is unknown, because old receipts are deleted. */
  | 'zap_request_too_old'
  | 'zap_request_reused'
  | 'too_many_receipts';

/** An entry in the history of a quote, for `nutpost trace`. `atMs`: milliseconds since 1970. */
export type QuoteEvent = { atMs: number } & (
  | { kind: 'state'; from: QuoteState; to: QuoteState; source: 'socket' | 'poll' }
  | { kind: 'observation_rejected'; reason: RejectionReason; reportedState: ObservedState }
  | { kind: 'update_sent'; socketCount: number }
  | { kind: 'receipt_refused'; reason: ReceiptRefusal }
);

export type NewQuoteEvent = QuoteEvent & { quoteRowId: number };

const COLUMNS = { text: ['kind', 'reason', 'detail'], bigint: ['quote', 'at'] } as const;

/**
 * Stores events, unless their quote already has {@link MAX_EVENTS_PER_KIND} of the same kind, or one of the same kind and
 * reason. Returns the payment hashes of the quotes whose events were stored, by `quotes.id`.
 */
export async function addQuoteEvents(
  db: Db,
  events: readonly NewQuoteEvent[],
): Promise<Map<number, string | null>> {
  if (events.length === 0) {
    return new Map();
  }
  const newRows = events.map(({ quoteRowId, atMs, kind, ...other }) => {
    const reason = 'reason' in other ? other.reason : null;
    const detail = JSON.stringify({ ...other, reason: undefined });
    return { quote: quoteRowId, at: atMs, kind, reason, detail };
  });
  const { rows } = await sql<{ quote: number; hash: string | null }>`
    insert into quote_events (quote, at, kind, reason, detail)
    select quote, at, kind, reason, detail from ${jsonRows(db, COLUMNS, newRows)} as added
    where case when reason is null then ${MAX_EVENTS_PER_KIND} else 1 end > (
      select count(*) from quote_events as earlier
      where earlier.quote = added.quote and earlier.kind = added.kind
        and earlier.reason is not distinct from added.reason
    )
    returning quote, (select payment_hash from quotes where quotes.id = quote) as hash
  `.execute(db);
  return new Map(rows.map(({ quote, hash }) => [quote, hash]));
}

export async function listQuoteEvents(db: Db, quoteRowId: number): Promise<QuoteEvent[]> {
  const rows = await db
    .selectFrom('quote_events')
    .select(['at', 'kind', 'reason', 'detail'])
    .where('quote', '=', quoteRowId)
    .orderBy('id')
    .execute();
  return rows.map(
    ({ at, kind, reason, detail }) =>
      ({ atMs: at, kind, ...(reason && { reason }), ...JSON.parse(detail) }) as QuoteEvent,
  );
}

/**
 * Returns updates for payments whose state has changed since a time, if they belong to one of these recipients or will be
 * listed after `nowMs`. Times in milliseconds since 1970.
 */
export async function listUpdatesSince(
  db: Db,
  sinceMs: number,
  { pubkeys, nowMs }: { pubkeys: readonly string[]; nowMs: number },
): Promise<QuoteUpdate[]> {
  // `cross join` makes SQLite start with the events instead of all payments of the recipients.
  const { rows } = await sql<QuoteUpdate>`
    select distinct quotes.id, quotes.pubkey, quotes.quote_id as "quoteId",
      quotes.paid_at as "listedAtMs"
    from quote_events cross join quotes
    where quotes.id = quote_events.quote
      and quote_events.at >= ${sinceMs} and quote_events.kind = 'state'
      and quotes.paid_seq is not null
      and (
        quotes.paid_at > ${nowMs}
        or ${columnInValues(db, 'quotes.pubkey', 'text', pubkeys)}
      )
    order by quotes.id
  `.execute(db);
  return rows;
}
