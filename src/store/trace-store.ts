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
  /** Null: no longer watched. */
  nextCheckAtMs: number | null;
  /** When the mint last answered for it; null where it has not yet. */
  checkedAtMs: number | null;
  /** How many such answers there were. */
  checks: number;
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

  /** The quotes with this payment hash (hex), the newest first: one, unless a mint repeats itself. */
  async findByPaymentHash(paymentHash: string, limit: number): Promise<TracedQuote[]> {
    const rows = await this.#newestWith('payment_hash', paymentHash).limit(limit).execute();
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
               created_at, expires_at, paid_at, next_check_at, checked_at, checks,
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

  /** A recipient's newest quotes that are not paid and still watched, the newest first. */
  async listOpen(pubkey: string, limit: number): Promise<TracedQuote[]> {
    const rows = await this.#newestWith('pubkey', pubkey)
      .where('paid_seq', 'is', null)
      .where('next_check_at', 'is not', null)
      .limit(limit)
      .execute();
    return rows.map(toTracedQuote);
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

  /**
   * Said as a range, and in this order, it is read by an index of the column. An equation would let
   * PostgreSQL walk back through all quotes instead, in the hope that some of the newest match.
   */
  #newestWith(column: 'payment_hash' | 'pubkey', value: string) {
    return this.#quotes()
      .where(column, '>=', value)
      .where(column, '<=', value)
      .orderBy(column, 'desc')
      .orderBy('id', 'desc');
  }

  #quotes() {
    return this.#db
      .selectFrom('quotes')
      .select(['id', 'mint_url', 'quote_id', 'pubkey', 'payment_hash', 'amount_sat', 'state'])
      .select(['locked', 'created_at', 'expires_at', 'paid_at'])
      .select(['next_check_at', 'checked_at', 'checks'])
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
  next_check_at: Date | null;
  checked_at: Date | null;
  checks: number;
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
    nextCheckAtMs: row.next_check_at?.getTime() ?? null,
    checkedAtMs: row.checked_at?.getTime() ?? null,
    checks: row.checks,
    isZap: row.is_zap,
    hasComment: row.has_comment,
  };
}
