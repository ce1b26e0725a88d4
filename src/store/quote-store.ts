import { createHash, timingSafeEqual } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import type { NextCheck } from '../domain/poll-schedule.ts';
import type { PaidState, QuoteState } from '../domain/quote.ts';
import { isJoined, type MaybeJoined } from './joined-row.ts';
import { longAgo } from './long-ago.ts';
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
  /** What the payer wrote (LUD-12). */
  comment: string | null;
  /** The payer's event, to the byte as it was signed (NIP-57). */
  zapRequest: string | null;
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
  comment: string | null;
  zapRequest: string | null;
}

/** A quote by its mint and id. */
export interface QuoteKey {
  mintUrl: string;
  quoteId: string;
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
    // Said outright: the builder would put the same words together anew for each quote.
    const { numAffectedRows } = await sql`
      insert into quotes (
        mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at, expires_at,
        verify_token, payment_hash, next_check_at, check_class, comment, zap_request
      ) values (
        ${quote.mintUrl}, ${quote.quoteId}, ${quote.pubkey}, ${quote.request}, ${quote.amountSat},
        'UNPAID', ${quote.locked}, ${new Date(quote.createdAtMs)}, ${new Date(quote.expiresAtMs)},
        ${quote.verifyToken}, ${quote.paymentHash}, ${new Date(quote.nextCheck.atMs)},
        ${quote.nextCheck.checkClass}, ${quote.comment}, ${quote.zapRequest}
      ) on conflict (mint_url, quote_id) do nothing
    `.execute(this.#db);
    return numAffectedRows === 1n;
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
    const { rows } = await sql<{ total: number } & MaybeJoined<QuoteRow>>`
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
               created_at, expires_at, paid_at, comment, zap_request
        from quotes
        where pubkey = ${pubkey} and paid_seq is not null
          and paid_seq > greatest(seen, newest - ${page.offset}::bigint - ${page.limit}::bigint)
          and paid_seq <= newest - ${page.offset}::bigint
        order by paid_seq desc
      ) as page on true
    `.execute(this.#db);
    return { total: rows[0]?.total ?? 0, quotes: rows.filter(isListed).map(toListedQuote) };
  }

  /**
   * How many invoices of a recipient can be paid and are not, of the newest that are watched, and when
   * the first of them ceases to count (milliseconds since 1970; null where there is none).
   *
   * The key is said as a range, and ordered by: an equation would let PostgreSQL walk back through
   * all quotes instead, in the hope that some of the newest match.
   *
   * @param bounds.openForMs an invoice counts for so long, and no longer than it can be paid
   * @param bounds.limit no more are counted, and no more are read
   */
  async countOpen(
    pubkey: string,
    { openForMs, nowMs, limit }: { openForMs: number; nowMs: number; limit: number },
  ): Promise<{ count: number; firstClosesAtMs: number | null }> {
    const { rows } = await sql<{ count: number; first_closes_at: Date | null }>`
      select count(*)::int as count, min(closes_at) as first_closes_at
      from (
        select least(expires_at, created_at + ${openForMs}::int * interval '1 ms') as closes_at
        from quotes
        where pubkey >= ${pubkey} and pubkey <= ${pubkey}
          and paid_seq is null and next_check_at is not null
        order by pubkey desc, id desc limit ${limit}
      ) as newest
      where closes_at > ${new Date(nowMs)}
        -- Where the clock was set back, what was made later than now does not count.
        and closes_at <= ${new Date(nowMs + openForMs)}
    `.execute(this.#db);
    const [row] = rows;
    return {
      count: row?.count ?? 0,
      firstClosesAtMs: row?.first_closes_at?.getTime() ?? null,
    };
  }

  /** Which of these quotes are kept and not paid, by their place among them, from 0. */
  async findUnpaid(quotes: readonly QuoteKey[]): Promise<number[]> {
    const asked = quotes.map(({ mintUrl, quoteId }, place) => ({
      place,
      mint_url: mintUrl,
      quote_id: quoteId,
    }));
    const { rows } = await sql<{ place: number }>`
      select asked.place
      from json_to_recordset(${JSON.stringify(asked)}::json)
        as asked (place int, mint_url text, quote_id text)
      join quotes on quotes.mint_url = asked.mint_url and quotes.quote_id = asked.quote_id
      where paid_seq is null
    `.execute(this.#db);
    return rows.map(({ place }) => place);
  }

  /**
   * Forgets what payers wrote with invoices that ended unpaid: see {@link longAgo}.
   *
   * @param beforeMs of these, those that expired earlier (milliseconds since 1970)
   * @returns whether there may be more than `limit` of them
   */
  async forgetWords(beforeMs: number, limit: number): Promise<boolean> {
    const { rows } = await sql`
      update quotes set zap_request = null, comment = null where id = any(array(
        select id from quotes
        where paid_seq is null and (zap_request is not null or comment is not null)
          and expires_at < ${longAgo(beforeMs)} and state = 'EXPIRED'
        order by expires_at limit ${limit}
        for no key update skip locked
      ))
      returning 1
    `.execute(this.#db);
    return rows.length === limit;
  }

  /**
   * The payment request and state behind the token of a verify url (LUD-21). Found by its hash, so that
   * the time that takes says nothing of how much of a guess is right; the row's own token decides.
   */
  async findByVerifyToken(
    token: string,
  ): Promise<{ id: number; request: string; state: QuoteState } | null> {
    const hash = createHash('sha256').update(token).digest();
    const row = await this.#db
      .selectFrom('quotes')
      .select(['id', 'request', 'state', 'verify_token'])
      .where(sql`sha256(verify_token::bytea)`, '=', hash)
      .executeTakeFirst();
    return row !== undefined && isSameText(row.verify_token ?? '', token)
      ? { id: row.id, request: row.request, state: row.state }
      : null;
  }
}

/** Compares secrets in a time that depends on their length alone. */
function isSameText(kept: string, given: string): boolean {
  const [keptBytes, givenBytes] = [Buffer.from(kept), Buffer.from(given)];
  return keptBytes.length === givenBytes.length && timingSafeEqual(keptBytes, givenBytes);
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
  comment: string | null;
  zap_request: string | null;
}

/** The one row of an empty page carries the total and nothing else. */
const isListed = isJoined<QuoteRow>('quote_id');

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
    comment: row.comment,
    zapRequest: row.zap_request,
  };
}
