import { type Kysely, sql } from 'kysely';
import type { QuoteState } from '../domain/quote.ts';
import type { Schema } from './schema.ts';

/** All that an operator may want to know of a quote. Times in milliseconds since 1970. */
export interface TracedQuote {
  id: number;
  mintUrl: string;
  quoteId: string;
  /** Of its recipient, hex. */
  pubkey: string;
  /** Hex; null where the invoice of an older row could not be read. */
  paymentHash: string | null;
  amountSat: number;
  state: QuoteState;
  locked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  /** When the payment was recorded here; null before. */
  paidAtMs: number | null;
  /** Until when its mint is asked about it; null: no longer watched. */
  watchUntilMs: number | null;
  /** Whether the payer sent a zap request (NIP-57). */
  isZap: boolean;
  /** Whether the payer sent a comment (LUD-12), which is for the recipient alone. */
  hasComment: boolean;
}

/** The process that has taken a mint to watch. */
export interface MintOwner {
  processId: string;
  /** Whether it has said in time that it is alive. */
  isAlive: boolean;
}

/**
 * Finds quotes for whoever asks where a payment is. Each query costs what it gives, however many
 * quotes there are.
 */
export class TraceStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

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
   * The quotes with this id, the newest first: one, unless several mints gave it. Two looks into an
   * index for each mint that ever made a quote.
   */
  async findByQuoteId(quoteId: string, limit: number): Promise<TracedQuote[]> {
    const { rows } = await sql<QuoteRow>`
      with recursive makers as (
        (select mint_url from quotes order by mint_url limit 1)
        union all
        select later.mint_url from makers cross join lateral (
          select mint_url from quotes
          where mint_url > makers.mint_url
          order by mint_url limit 1
        ) as later
      )
      select found.* from makers cross join lateral (
        select id, mint_url, quote_id, pubkey, payment_hash, amount_sat, state, locked,
               created_at, expires_at, paid_at, watch_until,
               ${IS_ZAP} as is_zap, ${HAS_COMMENT} as has_comment
        from quotes
        where mint_url = makers.mint_url and quote_id = ${quoteId}
        limit 1
      ) as found
      order by id desc limit ${limit}
    `.execute(this.#db);
    return rows.map(toTracedQuote);
  }

  /**
   * A recipient's newest payments, the newest first, and how many there are in all. The counter that
   * places them bounds what is read; so `total` is the place of the newest.
   */
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
        sql<number>`(select paid_count - ${limit}::int from users where pubkey = ${pubkey})`,
      )
      .orderBy('paid_seq', 'desc')
      .limit(limit)
      .execute();
    return { quotes: rows.map(toTracedQuote), total: rows[0]?.paid_seq ?? 0 };
  }

  /** Returns those of a recipient's newest unpaid quotes, `limit` in number, that are still watched, newest first. */
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

  /** The process that has taken a mint to watch; null where none has. */
  async ownerOf(mintUrl: string): Promise<MintOwner | null> {
    const row = await this.#db
      .selectFrom('mint_leases')
      .innerJoin('watch_processes', 'watch_processes.id', 'mint_leases.owner')
      .select(['owner', sql<boolean>`alive_until > clock_timestamp()`.as('is_alive')])
      .where('mint_url', '=', mintUrl)
      .executeTakeFirst();
    return row === undefined ? null : { processId: row.owner, isAlive: row.is_alive };
  }

  #quotes() {
    return this.#db
      .selectFrom('quotes')
      .select(['id', 'mint_url', 'quote_id', 'pubkey', 'payment_hash', 'amount_sat', 'state'])
      .select(['locked', 'created_at', 'expires_at', 'paid_at', 'watch_until'])
      .select([IS_ZAP.as('is_zap'), HAS_COMMENT.as('has_comment')]);
  }
}

const IS_ZAP = sql<boolean>`(zap_request is not null)`;
const HAS_COMMENT = sql<boolean>`(comment is not null)`;

interface QuoteRow {
  id: number;
  mint_url: string;
  quote_id: string;
  pubkey: string;
  payment_hash: string | null;
  amount_sat: number;
  state: QuoteState;
  locked: boolean;
  created_at: Date;
  expires_at: Date;
  paid_at: Date | null;
  watch_until: Date | null;
  is_zap: boolean;
  has_comment: boolean;
}

function toTracedQuote(row: QuoteRow): TracedQuote {
  return {
    id: row.id,
    mintUrl: row.mint_url,
    quoteId: row.quote_id,
    pubkey: row.pubkey,
    paymentHash: row.payment_hash,
    amountSat: row.amount_sat,
    state: row.state,
    locked: row.locked,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at.getTime(),
    paidAtMs: row.paid_at?.getTime() ?? null,
    watchUntilMs: row.watch_until?.getTime() ?? null,
    isZap: row.is_zap,
    hasComment: row.has_comment,
  };
}
