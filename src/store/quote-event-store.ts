import { type Kysely, sql } from 'kysely';
import type { QuoteEvent } from '../domain/quote-event.ts';
import { anyOf } from './any-of.ts';
import { longAgo } from './long-ago.ts';
import type { Schema } from './schema.ts';

/** An honest quote has a handful of events of a kind. A mint that keeps changing its mind must not fill the disk. */
const MAX_EVENTS_OF_A_KIND = 20;

/** An event to store. */
export type NewQuoteEvent = QuoteEvent & {
  /** The quote's row, `HeldQuote.id`. */
  id: number;
  /** Of its recipient, hex. */
  pubkey: string;
};

/** A quote of a recipient whose state changed. */
export interface ChangedQuote {
  id: number;
  pubkey: string;
  quoteId: string;
}

/** The history of quotes, bounded for each and in age. */
export class QuoteEventStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

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
    const added = events.map(({ id, pubkey, atMs, kind, ...detail }) => ({
      quote: id,
      pubkey,
      at: new Date(atMs).toISOString(),
      kind,
      detail,
    }));
    const { rows } = await sql<{ quote: number; hash: string | null }>`
      insert into quote_events (quote, pubkey, at, kind, detail)
      select added.* from json_to_recordset(${JSON.stringify(added)}::json)
        as added (quote bigint, pubkey text, at timestamptz, kind text, detail jsonb)
      where case added.kind when 'disbelieved' then 1 else ${MAX_EVENTS_OF_A_KIND}::int end > (
        select count(*) from quote_events as earlier
        where earlier.quote = added.quote and earlier.kind = added.kind
          and (added.kind <> 'disbelieved'
            or earlier.detail ->> 'reason' = added.detail ->> 'reason')
      )
      returning quote, (select payment_hash from quotes where quotes.id = quote) as hash
    `.execute(this.#db);
    return new Map(rows.map(({ quote, hash }) => [quote, hash]));
  }

  /** Lists the events of a quote, oldest first. */
  async list(id: number): Promise<QuoteEvent[]> {
    const rows = await this.#db
      .selectFrom('quote_events')
      .select(['at', 'kind', 'detail'])
      .where('quote', '=', id)
      .orderBy('id')
      .execute();
    return rows.map(
      ({ at, kind, detail }) => ({ atMs: at.getTime(), kind, ...detail }) as QuoteEvent,
    );
  }

  /** Listed quotes of these recipients whose state changed since a time (milliseconds since 1970). */
  async changedSince(sinceMs: number, pubkeys: readonly string[]): Promise<ChangedQuote[]> {
    const { rows } = await sql<{ id: number; pubkey: string; quote_id: string }>`
      select distinct quotes.id, quotes.pubkey, quotes.quote_id
      from quote_events join quotes on quotes.id = quote_events.quote
      where quote_events.at >= ${new Date(sinceMs)} and quote_events.kind = 'state'
        and quotes.paid_seq is not null
        and quote_events.pubkey in ${anyOf(pubkeys)}
      order by quotes.id
    `.execute(this.#db);
    return rows.map((row) => ({ id: row.id, pubkey: row.pubkey, quoteId: row.quote_id }));
  }

  /**
   * Deletes old events; see {@link longAgo}.
   *
   * @param beforeMs deletes earlier events (milliseconds since 1970)
   * @returns whether there may be more than `limit` of them
   */
  async prune(beforeMs: number, limit: number): Promise<boolean> {
    const { rows } = await sql`
      delete from quote_events where id in (
        select id from quote_events
        where at < ${longAgo(beforeMs)}
        order by at limit ${limit}
        for update skip locked
      )
      returning 1
    `.execute(this.#db);
    return rows.length === limit;
  }
}
