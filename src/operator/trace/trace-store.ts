import { sql } from 'kysely';
import { DatabaseStore, databaseNow, isAnyOf } from '../../database/sql.ts';
import type { QuoteState } from '../../database/schema.ts';

/** A quote as an operator sees it. Times in milliseconds since 1970. */
export interface TracedQuote {
  id: number;
  mintUrl: string;
  quoteId: string;
  /** Of the recipient, hex. */
  pubkey: string;
  /** Hex; null if the invoice could not be read. */
  paymentHash: string | null;
  amountSat: number;
  state: QuoteState;
  locked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  /** When the payment was recorded; null if there is none. */
  paidAtMs: number | null;
  /** Until when the mint is polled about it; null: no longer watched. */
  watchUntilMs: number | null;
  /** Whether the payer sent a zap request (NIP-57). */
  isZap: boolean;
  /** Whether the payer sent a comment (LUD-12), which only the recipient may read. */
  hasComment: boolean;
}

/** The process that has the lease of a mint. */
export interface MintOwner {
  processId: string;
  /** Whether its heartbeat is recent. */
  isAlive: boolean;
}

/** Finds quotes for `nutpost trace`. The cost of each query does not depend on the number of quotes. */
export class TraceStore extends DatabaseStore {
  /** Returns the quotes with this payment hash (hex), newest first: one, unless a mint repeats itself. */
  async findByPaymentHash(paymentHash: string, limit: number): Promise<TracedQuote[]> {
    const rows = await this.#quotes()
      .where('payment_hash', '=', paymentHash)
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .limit(limit)
      .execute();
    return rows.map(toTracedQuote);
  }

  /**
   * Returns the quotes with this id, newest first: one, unless several mints gave it. Reads two index entries
   * for each mint that ever created a quote.
   */
  async findByQuoteId(quoteId: string, limit: number): Promise<TracedQuote[]> {
    const ids = sql`
      with recursive makers (mint_url) as (
        select min(mint_url) from quotes
        union all
        select (select min(quotes.mint_url) from quotes where quotes.mint_url > makers.mint_url)
        from makers where makers.mint_url is not null
      )
      select (select id from quotes where mint_url = makers.mint_url and quote_id = ${quoteId})
      from makers`;
    const rows = await this.#quotes()
      .where(isAnyOf(this.db, 'id', ids))
      .orderBy('id', 'desc')
      .limit(limit)
      .execute();
    return rows.map(toTracedQuote);
  }

  /** Returns a recipient's newest payments, newest first, and their total, which is the `paid_seq` of the newest. */
  async listPayments(
    pubkey: string,
    limit: number,
  ): Promise<{ quotes: TracedQuote[]; total: number }> {
    const rows = await this.#quotes()
      .select('paid_seq')
      .where('pubkey', '=', pubkey)
      .where('paid_seq', 'is not', null)
      .where(
        'paid_seq',
        '>',
        sql<number>`(select paid_count - ${limit} from users where pubkey = ${pubkey})`,
      )
      .orderBy('paid_seq', 'desc')
      .limit(limit)
      .execute();
    const quotes = rows.map(({ paid_seq: _, ...row }) => toTracedQuote(row));
    return { quotes, total: rows[0]?.paid_seq ?? 0 };
  }

  /** Returns those of a recipient's newest `limit` unpaid quotes that are still watched, newest first. */
  async listOpen(pubkey: string, limit: number): Promise<TracedQuote[]> {
    const rows = await this.#quotes()
      .where('pubkey', '=', pubkey)
      .where('paid_at', 'is', null)
      // All null, but without it PostgreSQL does not see that an index has this order.
      .orderBy('paid_at', 'desc')
      // Without a tie-break, so that rows come in the order of the index even if the planner has no statistics.
      .orderBy('created_at', 'desc')
      .limit(limit)
      .execute();
    return rows.map(toTracedQuote).filter(({ watchUntilMs }) => watchUntilMs !== null);
  }

  /** Returns the process that watches a mint; null if there is none. */
  async ownerOf(mintUrl: string): Promise<MintOwner | null> {
    const row = await this.db
      .selectFrom('mint_leases')
      .innerJoin('watch_processes', 'watch_processes.id', 'mint_leases.owner')
      .select(['owner', sql<number>`alive_until - ${databaseNow(this.db)}`.as('remaining_ms')])
      .where('mint_url', '=', mintUrl)
      .executeTakeFirst();
    return row === undefined ? null : { processId: row.owner, isAlive: row.remaining_ms > 0 };
  }

  #quotes() {
    return this.db.selectFrom('quotes').select(QUOTE_COLUMNS);
  }
}

const QUOTE_COLUMNS = [
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
  sql<number>`case when zap_request is null then 0 else 1 end`.as('isZap'),
  sql<number>`case when comment is null then 0 else 1 end`.as('hasComment'),
] as const;

type Flag = 'locked' | 'isZap' | 'hasComment';

function toTracedQuote(row: Omit<TracedQuote, Flag> & Record<Flag, number>): TracedQuote {
  const { locked, isZap, hasComment } = row;
  return { ...row, locked: locked === 1, isZap: isZap === 1, hasComment: hasComment === 1 };
}
