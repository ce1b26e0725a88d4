import { type Kysely, sql } from 'kysely';
import type { NextCheck } from '../domain/poll-schedule.ts';
import type { PaidState, QuoteState } from '../domain/quote.ts';
import type { Schema } from './schema.ts';

/** A quote that a mint has just created, before anybody paid it. Times in milliseconds since 1970. */
export interface NewQuote {
  mintUrl: string;
  quoteId: string;
  pubkey: string;
  request: string;
  amountSat: number;
  locked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  verifyToken: string;
  paymentHash: string;
  nextCheck: NextCheck;
}

/** A row of a recipient's list. Times in milliseconds since 1970. */
export interface ListedQuote {
  mintUrl: string;
  quoteId: string;
  request: string;
  amountSat: number;
  state: PaidState;
  locked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  paidAtMs: number;
}

/** Which part of a recipient's list is wanted. */
export interface PageRequest {
  /** Only payments later than this Unix time, in seconds; null for all. */
  sinceSeconds: number | null;
  limit: number;
  offset: number;
}

/** The last second that PostgreSQL's and JavaScript's dates both know; later means the same. */
const LAST_SECOND = 8_640_000_000_000;

/** Mint quotes. */
export class QuoteStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** Keeps a new quote; false where a quote of that mint and id is there already. */
  async insert(quote: NewQuote): Promise<boolean> {
    const inserted = await this.#db
      .insertInto('quotes')
      .values({
        mint_url: quote.mintUrl,
        quote_id: quote.quoteId,
        pubkey: quote.pubkey,
        request: quote.request,
        amount_sat: quote.amountSat,
        state: 'UNPAID',
        locked: quote.locked,
        created_at: new Date(quote.createdAtMs),
        expires_at: new Date(quote.expiresAtMs),
        verify_token: quote.verifyToken,
        payment_hash: quote.paymentHash,
        next_check_at: new Date(quote.nextCheck.atMs),
        check_class: quote.nextCheck.checkClass,
      })
      .onConflict((conflict) => conflict.columns(['mint_url', 'quote_id']).doNothing())
      .executeTakeFirst();
    return inserted.numInsertedOrUpdatedRows === 1n;
  }

  /**
   * One page of a recipient's paid quotes, newest payment first, and how many there are in all.
   *
   * Pages are found by the recipient's payment counter, so the last one costs what the first costs.
   * The counter is dense, and so bounds a page at both ends: PostgreSQL guesses the rows of a range
   * too low, and without its older end would read and sort all that is older.
   */
  async listPaid(
    pubkey: string,
    page: PageRequest,
  ): Promise<{ quotes: ListedQuote[]; total: number }> {
    const sinceSeconds =
      page.sinceSeconds === null ? null : Math.min(page.sinceSeconds, LAST_SECOND);
    const { rows } = await sql<{ total: number } & NullableRow>`
      with bounds as materialized (
        select
          coalesce((select paid_count from users where pubkey = ${pubkey}), 0) as newest,
          coalesce((
            select paid_seq from quotes
            where pubkey = ${pubkey} and paid_seq is not null
              and paid_at <= to_timestamp(${sinceSeconds}::bigint)
            order by paid_at desc, paid_seq desc limit 1
          ), 0) as seen
      )
      select newest - seen as total, page.*
      from bounds left join lateral (
        select mint_url, quote_id, request, amount_sat, state, locked,
               created_at, expires_at, paid_at
        from quotes
        where pubkey = ${pubkey} and paid_seq is not null
          and paid_seq > greatest(seen, newest - ${page.offset}::bigint - ${page.limit}::bigint)
          and paid_seq <= newest - ${page.offset}::bigint
        order by paid_seq desc
      ) as page on true
    `.execute(this.#db);
    return { total: rows[0]?.total ?? 0, quotes: rows.filter(isListed).map(toListedQuote) };
  }

  /** The payment request and state behind the token of a verify url (LUD-21). */
  async findByVerifyToken(token: string): Promise<{ request: string; state: QuoteState } | null> {
    const row = await this.#db
      .selectFrom('quotes')
      .select(['request', 'state'])
      .where('verify_token', '=', token)
      .executeTakeFirst();
    return row ?? null;
  }
}

interface QuoteRow {
  mint_url: string;
  quote_id: string;
  request: string;
  amount_sat: number;
  state: PaidState;
  locked: boolean;
  created_at: Date;
  expires_at: Date;
  paid_at: Date;
}

type NullableRow = { [Column in keyof QuoteRow]: QuoteRow[Column] | null };

/** The one row of an empty page carries the total and nothing else. */
function isListed<Row extends NullableRow>(row: Row): row is Row & QuoteRow {
  return row.quote_id !== null;
}

function toListedQuote(row: QuoteRow): ListedQuote {
  return {
    mintUrl: row.mint_url,
    quoteId: row.quote_id,
    request: row.request,
    amountSat: row.amount_sat,
    state: row.state,
    locked: row.locked,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at.getTime(),
    paidAtMs: row.paid_at.getTime(),
  };
}
