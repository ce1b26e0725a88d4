import { sql } from 'kysely';
import { DatabaseStore, databaseNow, isAny, jsonRows, lockRows } from '../database/sql.ts';
import { HISTORY_MS } from '../retention.ts';
import type { ObservedState } from '../mints/quote-answer.ts';
import type { QuoteState } from '../database/schema.ts';

/** An honest quote has a handful of events of a kind. A mint that keeps changing its mind must not fill the disk. */
const MAX_EVENTS_OF_A_KIND = 20;

export type NewQuoteEvent = QuoteEvent & {
  /** The quote's row, `HeldQuote.id`. */
  id: number;
};

/** A quote of a recipient whose state changed. */
export interface ChangedQuote {
  id: number;
  pubkey: string;
  quoteId: string;
}

const COLUMNS = {
  quote: 'bigint',
  at: 'bigint',
  kind: 'text',
  reason: 'text',
  detail: 'text',
} as const;

/** The history of quotes, bounded for each and in age. */
export class QuoteEventStore extends DatabaseStore {
  /**
   * Stores events: the first of a kind for each quote. What was not believed is stored once for each reason, because the
   * mint repeats it with every poll.
   *
   * @returns the payment hashes (hex) of the quotes of the stored events, by `HeldQuote.id`
   */
  async add(events: readonly NewQuoteEvent[]): Promise<Map<number, string | null>> {
    if (events.length === 0) {
      return new Map();
    }
    const added = events.map(({ id, atMs, kind, ...detail }) => {
      const { reason = null, ...rest } = { reason: undefined, ...detail };
      return { quote: id, at: atMs, kind, reason, detail: JSON.stringify(rest) };
    });
    const { rows } = await sql<{ quote: number; hash: string | null }>`
      insert into quote_events (quote, at, kind, reason, detail)
      select quote, at, kind, reason, detail from ${jsonRows(this.db, COLUMNS, added)} as added
      where case when reason is null then ${MAX_EVENTS_OF_A_KIND} else 1 end > (
        select count(*) from quote_events as earlier
        where earlier.quote = added.quote and earlier.kind = added.kind
          and earlier.reason is not distinct from added.reason
      )
      returning quote, (select payment_hash from quotes where quotes.id = quote) as hash
    `.execute(this.db);
    return new Map(rows.map(({ quote, hash }) => [quote, hash]));
  }

  /** Lists the events of a quote, oldest first. */
  async list(id: number): Promise<QuoteEvent[]> {
    const rows = await this.db
      .selectFrom('quote_events')
      .select(['at', 'kind', 'reason', 'detail'])
      .where('quote', '=', id)
      .orderBy('id')
      .execute();
    return rows.map(
      ({ at, kind, reason, detail }) =>
        ({ atMs: at, kind, ...(reason && { reason }), ...JSON.parse(detail) }) as QuoteEvent,
    );
  }

  /** Listed quotes of these recipients whose state changed since a time (milliseconds since 1970). */
  async changedSince(sinceMs: number, pubkeys: readonly string[]): Promise<ChangedQuote[]> {
    // With `cross join`, SQLite looks up the events first, rather than all payments of the recipients.
    const { rows } = await sql<ChangedQuote>`
      select distinct quotes.id, quotes.pubkey, quotes.quote_id as "quoteId"
      from quote_events cross join quotes
      where quotes.id = quote_events.quote
        and quote_events.at >= ${sinceMs} and quote_events.kind = 'state'
        and quotes.paid_seq is not null
        and ${isAny(this.db, 'quotes.pubkey', 'text', pubkeys)}
      order by quotes.id
    `.execute(this.db);
    return rows;
  }

  /**
   * Deletes events older than {@link HISTORY_MS}, by the database's clock.
   *
   * @returns whether there may be more than `limit` of them
   */
  async prune(limit: number): Promise<boolean> {
    const { numAffectedRows } = await sql`
      delete from quote_events where id in (
        select id from quote_events
        where at < ${databaseNow(this.db)} - ${HISTORY_MS}
        order by at limit ${limit}
        ${lockRows(this.db, 'for update skip locked')}
      )
    `.execute(this.db);
    return numAffectedRows === BigInt(limit);
  }
}

/** An entry in the history of a quote, which shows operators where a payment is. */
export type QuoteEventDetail =
  /** The mint reported a new state, which was recorded. */
  | { kind: 'state'; from: QuoteState; to: QuoteState; source: 'socket' | 'poll' }
  /** The mint reported something that was rejected. */
  | { kind: 'disbelieved'; reason: 'another_amount_or_invoice' | 'backwards'; said: ObservedState }
  /** An `update` was sent to this many sockets of the recipient. */
  | { kind: 'told'; sockets: number };

export type QuoteEvent = QuoteEventDetail & {
  /** Milliseconds since 1970. */
  atMs: number;
};
