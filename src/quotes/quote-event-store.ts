import { sql } from 'kysely';
import type { QuoteState } from '../database/schema.ts';
import { BaseStore, columnInValues, databaseNow, jsonRows, lockRows } from '../database/sql.ts';
import type { ObservedState } from '../mints/quote-responses.ts';
import { HISTORY_RETENTION_MS } from '../retention.ts';
import type { QuoteUpdate } from './quote-notifications.ts';

/** Normal quotes have a handful. A mint that alternates states must not fill the disk. */
const MAX_EVENTS_PER_KIND = 20;

/** `quoteRowId` is `quotes.id`. */
export type NewQuoteEvent = QuoteEvent & { quoteRowId: number };

const COLUMNS = {
  quote: 'bigint',
  at: 'bigint',
  kind: 'text',
  reason: 'text',
  detail: 'text',
} as const;

/** The history of quotes, limited in events per quote and in age. */
export class QuoteEventStore extends BaseStore {
  /**
   * Stores events: the first {@link MAX_EVENTS_PER_KIND} of a kind per quote. Rejected observations
   * are stored once per reason, because the mint repeats them with every poll.
   *
   * @returns the payment hashes (hex) of the quotes of the stored events, by `quotes.id`
   */
  async add(events: readonly NewQuoteEvent[]): Promise<Map<number, string | null>> {
    if (events.length === 0) {
      return new Map();
    }
    const added = events.map(({ quoteRowId, atMs, kind, ...detail }) => {
      const { reason = null, ...rest } = { reason: undefined, ...detail };
      return { quote: quoteRowId, at: atMs, kind, reason, detail: JSON.stringify(rest) };
    });
    const { rows } = await sql<{ quote: number; hash: string | null }>`
      insert into quote_events (quote, at, kind, reason, detail)
      select quote, at, kind, reason, detail from ${jsonRows(this.db, COLUMNS, added)} as added
      where case when reason is null then ${MAX_EVENTS_PER_KIND} else 1 end > (
        select count(*) from quote_events as earlier
        where earlier.quote = added.quote and earlier.kind = added.kind
          and earlier.reason is not distinct from added.reason
      )
      returning quote, (select payment_hash from quotes where quotes.id = quote) as hash
    `.execute(this.db);
    return new Map(rows.map(({ quote, hash }) => [quote, hash]));
  }

  /** Lists the events of a quote, oldest first. */
  async listByQuote(quoteRowId: number): Promise<QuoteEvent[]> {
    const rows = await this.db
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

  /** Returns listed quotes whose state changed since a time (milliseconds since 1970). */
  async listChangedSince(sinceMs: number, pubkeys: readonly string[]): Promise<QuoteUpdate[]> {
    // `cross join` makes SQLite start with the events instead of all payments of the recipients.
    const { rows } = await sql<QuoteUpdate>`
      select distinct quotes.id, quotes.pubkey, quotes.quote_id as "quoteId"
      from quote_events cross join quotes
      where quotes.id = quote_events.quote
        and quote_events.at >= ${sinceMs} and quote_events.kind = 'state'
        and quotes.paid_seq is not null
        and ${columnInValues(this.db, 'quotes.pubkey', 'text', pubkeys)}
      order by quotes.id
    `.execute(this.db);
    return rows;
  }

  /** Deletes old events, up to `limit`. Returns whether more may be left. */
  async prune(limit: number): Promise<boolean> {
    const { numAffectedRows } = await sql`
      delete from quote_events where id in (
        select id from quote_events
        where at < ${databaseNow(this.db)} - ${HISTORY_RETENTION_MS}
        order by at limit ${limit}
        ${lockRows(this.db, 'for update skip locked')}
      )
    `.execute(this.db);
    return numAffectedRows === BigInt(limit);
  }
}

/** An entry in the history of a quote, for `nutpost trace`. */
export type QuoteEventDetail =
  /** A new state was recorded. */
  | { kind: 'state'; from: QuoteState; to: QuoteState; source: 'socket' | 'poll' }
  /** A report of the mint was rejected. */
  | {
      kind: 'observation_rejected';
      reason: 'amount_or_invoice_mismatch' | 'state_regression';
      reportedState: ObservedState;
    }
  /** An `update` was sent to this many sockets of the recipient. */
  | { kind: 'update_sent'; socketCount: number };

export type QuoteEvent = QuoteEventDetail & {
  /** Milliseconds since 1970. */
  atMs: number;
};
