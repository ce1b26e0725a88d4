import { type Kysely, sql } from 'kysely';
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
  nextCheckAtMs: number;
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

/** What the watcher needs of a quote to decide. Times in milliseconds since 1970. */
export interface HeldQuote {
  id: number;
  quoteId: string;
  pubkey: string;
  request: string;
  amountSat: number;
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  paidAtMs: number | null;
}

/** A quote's next state and check, and for a first payment its place in the recipient's list. */
export interface QuoteChange {
  id: number;
  state: QuoteState;
  nextCheckAtMs: number | null;
  payment: { paidAtMs: number; paidSeq: number } | null;
}

/** A mint that has quotes to watch, and when the first of them is due (milliseconds since 1970). */
export interface WatchedMint {
  mintUrl: string;
  nextDueAtMs: number;
}

/** A quote that the mint is to be asked about now. */
export interface DueQuote {
  quoteId: string;
  /** Milliseconds since 1970. */
  createdAtMs: number;
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
        next_check_at: new Date(quote.nextCheckAtMs),
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

  /** Every mint with watched quotes; one look into the index for each, however many quotes it has. */
  async watchedMints(): Promise<WatchedMint[]> {
    const { rows } = await sql<{ mint_url: string; next_due_at: Date }>`
      with recursive watched as (
        (select mint_url, next_check_at as next_due_at from quotes
         where next_check_at is not null
         order by mint_url, next_check_at limit 1)
        union all
        select later.mint_url, later.next_due_at
        from watched cross join lateral (
          select mint_url, next_check_at as next_due_at from quotes
          where next_check_at is not null and mint_url > watched.mint_url
          order by mint_url, next_check_at limit 1
        ) as later
      )
      select mint_url, next_due_at from watched
    `.execute(this.#db);
    return rows.map((row) => ({
      mintUrl: row.mint_url,
      nextDueAtMs: row.next_due_at.getTime(),
    }));
  }

  /** A mint's quotes that are due, the longest due first. */
  async listDue(mintUrl: string, nowMs: number, limit: number): Promise<DueQuote[]> {
    const rows = await this.#db
      .selectFrom('quotes')
      .select(['quote_id', 'created_at'])
      .where('mint_url', '=', mintUrl)
      .where('next_check_at', '<=', new Date(nowMs))
      .orderBy('next_check_at')
      .limit(limit)
      .execute();
    return rows.map((row) => ({
      quoteId: row.quote_id,
      createdAtMs: row.created_at.getTime(),
    }));
  }

  /** Ids of a mint's newest watched quotes, the newest last. */
  async listWatched(mintUrl: string, limit: number): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('quotes')
      .select('quote_id')
      .where('mint_url', '=', mintUrl)
      .where('next_check_at', 'is not', null)
      .orderBy('id', 'desc')
      .limit(limit)
      .execute();
    return rows.map((row) => row.quote_id).reverse();
  }

  /** The quotes of a mint with these ids; ids that we do not hold are left out. */
  async findHeld(mintUrl: string, quoteIds: readonly string[]): Promise<HeldQuote[]> {
    return (await this.#held(mintUrl, quoteIds).execute()).map(toHeldQuote);
  }

  /** As {@link findHeld}, locked until the transaction ends, always in the same order. */
  async lockHeld(mintUrl: string, quoteIds: readonly string[]): Promise<HeldQuote[]> {
    const rows = await this.#held(mintUrl, quoteIds).orderBy('id').forNoKeyUpdate().execute();
    return rows.map(toHeldQuote);
  }

  /** Writes what was decided about quotes that {@link lockHeld} gave out. */
  async applyChanges(changes: readonly QuoteChange[]): Promise<void> {
    if (changes.length === 0) {
      return;
    }
    const rows = changes.map((change) => ({
      id: change.id,
      state: change.state,
      next_check_at: toIso(change.nextCheckAtMs),
      paid_at: toIso(change.payment?.paidAtMs ?? null),
      paid_seq: change.payment?.paidSeq ?? null,
    }));
    await sql`
      update quotes set
        state = changed.state,
        next_check_at = changed.next_check_at,
        paid_at = coalesce(changed.paid_at, quotes.paid_at),
        paid_seq = coalesce(changed.paid_seq, quotes.paid_seq)
      from json_to_recordset(${JSON.stringify(rows)}::json)
        as changed (id bigint, state text, next_check_at timestamptz,
                    paid_at timestamptz, paid_seq bigint)
      where quotes.id = changed.id
    `.execute(this.#db);
  }

  /**
   * Plans the next check of quotes whose state was just confirmed; one that has moved on is left.
   * Rows are locked in the order of their ids, as {@link lockHeld} does, so that nothing waits in a
   * circle.
   */
  async reschedule(
    plans: readonly { id: number; state: QuoteState; nextCheckAtMs: number | null }[],
  ): Promise<void> {
    if (plans.length === 0) {
      return;
    }
    const rows = plans.map((plan) => ({
      id: plan.id,
      state: plan.state,
      next_check_at: toIso(plan.nextCheckAtMs),
    }));
    await sql`
      with planned as (
        select * from json_to_recordset(${JSON.stringify(rows)}::json)
          as planned (id bigint, state text, next_check_at timestamptz)
      ), locked as (
        select quotes.id, planned.next_check_at
        from quotes join planned on quotes.id = planned.id and quotes.state = planned.state
        order by quotes.id
        for no key update of quotes
      )
      update quotes set next_check_at = locked.next_check_at
      from locked where quotes.id = locked.id
    `.execute(this.#db);
  }

  /** Moves the next check of watched quotes to a later time (milliseconds since 1970). */
  async postpone(mintUrl: string, quoteIds: readonly string[], untilMs: number): Promise<void> {
    if (quoteIds.length === 0) {
      return;
    }
    await this.#db
      .updateTable('quotes')
      .set({ next_check_at: new Date(untilMs) })
      .where('mint_url', '=', mintUrl)
      .where('quote_id', 'in', quoteIds)
      .where('next_check_at', '<', new Date(untilMs))
      .execute();
  }

  #held(mintUrl: string, quoteIds: readonly string[]) {
    return this.#db
      .selectFrom('quotes')
      .select(['id', 'quote_id', 'pubkey', 'request', 'amount_sat', 'state'])
      .select(['created_at', 'expires_at', 'paid_at'])
      .where('mint_url', '=', mintUrl)
      .where(
        'quote_id',
        'in',
        sql<string>`(select json_array_elements_text(${JSON.stringify(quoteIds)}::json))`,
      );
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

function toHeldQuote(
  row: Omit<QuoteRow, 'mint_url' | 'locked' | 'state' | 'paid_at'> & {
    id: number;
    pubkey: string;
    state: QuoteState;
    paid_at: Date | null;
  },
): HeldQuote {
  return {
    id: row.id,
    quoteId: row.quote_id,
    pubkey: row.pubkey,
    request: row.request,
    amountSat: row.amount_sat,
    state: row.state,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at.getTime(),
    paidAtMs: row.paid_at?.getTime() ?? null,
  };
}

function toIso(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
