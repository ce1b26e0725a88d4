import { type Kysely, sql } from 'kysely';
import {
  type CheckClass,
  LONGEST_PLAN_MS,
  type NextCheck,
  UNCOVERED_WITHIN_MS,
} from '../domain/poll-schedule.ts';
import type { QuoteState } from '../domain/quote.ts';
import { Overtaken } from './overtaken.ts';
import type { Schema } from './schema.ts';

/** What the watcher needs of a quote to decide. Times in milliseconds since 1970. */
export interface HeldQuote {
  id: number;
  quoteId: string;
  pubkey: string;
  request: string;
  /** Hex; null where the invoice of an older row could not be read. */
  paymentHash: string | null;
  amountSat: number;
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  paidAtMs: number | null;
  /** When the mint answered for it the last time; null where it never did. */
  checkedAtMs: number | null;
}

/** A quote's next state and check, and for a first payment its place in the recipient's list. */
export interface QuoteChange {
  id: number;
  state: QuoteState;
  /** Null: no longer watched. */
  nextCheck: NextCheck | null;
  payment: { paidAtMs: number; paidSeq: number } | null;
}

/** The same of a quote as it was found, which must be so still. */
export interface ObservedChange extends QuoteChange {
  /** The state that it leaves. */
  from: QuoteState;
  /** `HeldQuote.checkedAtMs`. */
  checkedAtMs: number | null;
}

/** A mint that has quotes to watch, and when the first of them is due (milliseconds since 1970). */
export interface WatchedMint {
  mintUrl: string;
  nextDueAtMs: number;
  /** The process that watches it; null where none does. */
  owner: string | null;
}

/** A quote that the mint is to be asked about now. */
export interface DueQuote {
  quoteId: string;
  /** Milliseconds since 1970. */
  createdAtMs: number;
}

/** Mint quotes as the watcher sees them: what is due, what is held, and when to look again. */
export class QuoteWatchStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** Every mint with watched quotes, in the order of their urls; a few looks into the index for each, however many it has. */
  async watchedMints(): Promise<WatchedMint[]> {
    const { rows } = await sql<{ mint_url: string; next_due_at: Date; owner: string | null }>`
      with recursive watched as (
        (select mint_url, check_class, next_check_at as next_due_at from quotes
         where next_check_at is not null
         order by mint_url, check_class, next_check_at limit 1)
        union all
        select later.mint_url, later.check_class, later.next_due_at
        from watched cross join lateral (
          select mint_url, check_class, next_check_at as next_due_at from quotes
          where next_check_at is not null
            and (mint_url, check_class) > (watched.mint_url, watched.check_class)
          order by mint_url, check_class, next_check_at limit 1
        ) as later
      )
      select watched.mint_url, min(next_due_at) as next_due_at, owner
      from watched left join mint_leases using (mint_url)
      group by watched.mint_url, owner
      order by watched.mint_url
    `.execute(this.#db);
    return rows.map((row) => ({
      mintUrl: row.mint_url,
      nextDueAtMs: row.next_due_at.getTime(),
      owner: row.owner,
    }));
  }

  /**
   * A mint's quotes that are due, by class in the given order, within a class the longest due first.
   *
   * @param order each class at most once; of a class that is left out nothing is listed
   */
  async listDue(
    mintUrl: string,
    dueByMs: number,
    limit: number,
    order: readonly CheckClass[],
  ): Promise<DueQuote[]> {
    const ofClass = order.map(
      (checkClass, place) => sql`(
        select quote_id, created_at, next_check_at, ${place}::int as place from quotes
        where mint_url = ${mintUrl} and check_class = ${checkClass}
          and next_check_at <= ${new Date(dueByMs)}
        order by next_check_at limit ${limit}
      )`,
    );
    const { rows } = await sql<{ quote_id: string; created_at: Date }>`
      select quote_id, created_at from (${sql.join(ofClass, sql` union all `)}) as due
      order by place, next_check_at limit ${limit}
    `.execute(this.#db);
    return rows.map((row) => ({
      quoteId: row.quote_id,
      createdAtMs: row.created_at.getTime(),
    }));
  }

  /**
   * Ids of a mint's newest watched quotes, the newest last. All that it watches is read first: asked for
   * the newest outright, PostgreSQL would walk the whole table backwards for a mint that has few.
   */
  async listWatched(mintUrl: string, limit: number): Promise<string[]> {
    const { rows } = await sql<{ quote_id: string }>`
      with watched as materialized (
        select id, quote_id from quotes
        where mint_url = ${mintUrl} and next_check_at is not null
      )
      select quote_id from watched order by id desc limit ${limit}
    `.execute(this.#db);
    return rows.map((row) => row.quote_id).reverse();
  }

  /**
   * The quotes of a mint with these ids; ids that we do not hold are left out.
   *
   * @param quoteIds each once
   */
  async findHeld(mintUrl: string, quoteIds: readonly string[]): Promise<HeldQuote[]> {
    const { rows } = await sql<HeldQuoteRow>`
      select held.* from ${asked(quoteIds)} cross join lateral (
        select id, quote_id, pubkey, request, payment_hash, amount_sat, state, created_at,
               expires_at, paid_at, checked_at
        from quotes where ${isAsked(mintUrl)} limit 1
      ) as held
    `.execute(this.#db);
    return rows.map(toHeldQuote);
  }

  /**
   * Writes what was decided about quotes that the transaction has locked.
   *
   * @param nowMs when their mint answered (milliseconds since 1970)
   */
  async applyChanges(changes: readonly QuoteChange[], nowMs: number): Promise<void> {
    if (changes.length === 0) {
      return;
    }
    await sql`
      with changed as (${changedRows(changes)})
      ${updateChanged(nowMs)} and quotes.id = any(array(select id from changed))
    `.execute(this.#db);
  }

  /**
   * Writes what was decided about quotes that {@link findHeld} gave out, unless somebody has written to one of them since.
   * (For a first payment and a collection the state alone decides: that the mint was asked meanwhile is no obstacle.)
   * With a line in the history of each quote, and the counter of each recipient who was paid, which the
   * transaction has locked. It is one statement, because what a payment costs is how often the database is asked, and
   * how much it has to read. Quotes are named by an array of their ids: PostgreSQL reckons with few rows from
   * there on, and looks for each quote and recipient that changes by its key, in plans that it keeps, too.
   *
   * @param source who said so
   * @param nowMs when their mint answered (milliseconds since 1970)
   * @throws Overtaken where somebody has
   */
  async recordChanges(
    changes: readonly ObservedChange[],
    source: 'socket' | 'poll',
    nowMs: number,
  ): Promise<void> {
    if (changes.length === 0) {
      return;
    }
    const { numAffectedRows } = await sql`
      with decided as (${changedRows(changes)}), changed as (
        select decided.* from quotes join decided on quotes.id = decided.id
          and quotes.state = decided."from"
          and (decided.paid_seq is not null or decided.state = 'ISSUED'
            or date_trunc('milliseconds', quotes.checked_at)
              is not distinct from decided.checked_before)
        where quotes.id = any(array(select id from decided))
        order by quotes.id
        for no key update of quotes
      ), updated as (
        ${updateChanged(nowMs)} and (select count(*) from changed) = ${changes.length}::int
        returning quotes.id, pubkey, "from", quotes.state, changed.paid_at, changed.paid_seq
      ), counted as (
        update users set paid_count = latest.paid_seq, last_paid_at = latest.paid_at
        from (
          select distinct on (pubkey) pubkey, paid_seq, paid_at from updated
          where paid_seq is not null
          order by pubkey, paid_seq desc
        ) as latest
        where users.pubkey = latest.pubkey
      )
      insert into quote_events (quote, pubkey, at, kind, detail)
      select id, pubkey, ${new Date(nowMs)}::timestamptz, 'state',
             jsonb_build_object('from', "from", 'to', state, 'source', ${source}::text)
      from updated
    `.execute(this.#db);
    if (numAffectedRows !== BigInt(changes.length)) {
      throw new Overtaken();
    }
  }

  /**
   * Plans the next check of quotes whose state was just confirmed; one that has moved on is left.
   * Rows are locked in the order of their ids, as {@link recordChanges} does, so that nothing waits in a
   * circle. They are named by an array, as there.
   *
   * @param nowMs when their mint answered (milliseconds since 1970)
   */
  async reschedule(
    plans: readonly { id: number; state: QuoteState; nextCheck: NextCheck | null }[],
    nowMs: number,
  ): Promise<void> {
    if (plans.length === 0) {
      return;
    }
    const rows = plans.map((plan) => ({
      id: plan.id,
      state: plan.state,
      ...checkColumns(plan.nextCheck),
    }));
    await sql`
      with planned as (
        select * from json_to_recordset(${JSON.stringify(rows)}::json)
          as planned (id bigint, state text, next_check_at timestamptz, check_class smallint)
      ), locked as (
        select quotes.id, planned.next_check_at, planned.check_class
        from quotes join planned on quotes.id = planned.id and quotes.state = planned.state
        where quotes.id = any(array(select id from planned))
        order by quotes.id
        for no key update of quotes
      )
      update quotes set
        next_check_at = locked.next_check_at,
        check_class = coalesce(locked.check_class, quotes.check_class),
        checked_at = ${new Date(nowMs)},
        checks = quotes.checks + 1
      from locked where quotes.id = locked.id
    `.execute(this.#db);
  }

  /** Moves the next check of watched quotes to a later time (milliseconds since 1970); locks as {@link reschedule} does. */
  async postpone(mintUrl: string, quoteIds: readonly string[], untilMs: number): Promise<void> {
    if (quoteIds.length === 0) {
      return;
    }
    await sql`
      with due as (
        select id from quotes
        where next_check_at < ${new Date(untilMs)} and id = any(array(
          select held.id from ${asked(quoteIds)} cross join lateral (
            select id from quotes where ${isAsked(mintUrl)} limit 1
          ) as held
        ))
        order by id
        for no key update
      )
      update quotes set next_check_at = ${new Date(untilMs)}
      from due where quotes.id = due.id
    `.execute(this.#db);
  }

  /** Plans anew what was planned to be sparse because a socket reported it, which it does no longer. */
  async pullInUncovered(mintUrl: string, nowMs: number): Promise<void> {
    await sql`
      with uncovered as (
        select quotes.id, latest.next_check_at
        from quotes join (${latestByClass(nowMs, UNCOVERED_WITHIN_MS)}) as latest
          on quotes.check_class = latest.check_class
        where quotes.mint_url = ${mintUrl} and quotes.next_check_at > latest.next_check_at
        order by quotes.id
        for no key update of quotes
      )
      update quotes set next_check_at = uncovered.next_check_at
      from uncovered where quotes.id = uncovered.id
    `.execute(this.#db);
  }

  /**
   * Makes due at once what was planned by a clock that was ahead of the one that is right now: what was
   * made or looked at in the future, or is planned further off than anything ever is.
   *
   * @returns how many there were
   */
  async pullInFromFuture(mintUrl: string, nowMs: number): Promise<number> {
    const now = new Date(nowMs);
    const { rows } = await sql`
      with ahead as (
        select quotes.id
        from quotes join (${latestByClass(nowMs, LONGEST_PLAN_MS)}) as latest
          on quotes.check_class = latest.check_class
        where quotes.mint_url = ${mintUrl} and quotes.next_check_at > ${now}
          and (coalesce(quotes.checked_at, quotes.created_at) > ${now}
            or quotes.next_check_at > latest.next_check_at)
        order by quotes.id
        for no key update of quotes
      )
      update quotes set next_check_at = ${now} from ahead where quotes.id = ahead.id
      returning 1
    `.execute(this.#db);
    return rows.length;
  }
}

/**
 * Ids as a table `asked`, each of which is looked for on its own and `limit 1`. Asked for all of them at
 * once, PostgreSQL may keep a plan, made for any mint, that reads every quote of this one.
 */
function asked(quoteIds: readonly string[]) {
  return sql`json_array_elements_text(${JSON.stringify(quoteIds)}::json) as asked (quote_id)`;
}

/** Whether a quote is the one of this mint that is in the row of {@link asked}. */
function isAsked(mintUrl: string) {
  return sql`mint_url = ${mintUrl} and quotes.quote_id = asked.quote_id`;
}

/** Changes as a table; `from` and `checked_before` are null where they were not given. */
function changedRows(changes: readonly (QuoteChange & Partial<ObservedChange>)[]) {
  const rows = changes.map(({ id, from, checkedAtMs, state, nextCheck, payment }) => ({
    id,
    from,
    checked_before: toIso(checkedAtMs ?? null),
    state,
    ...checkColumns(nextCheck),
    paid_at: toIso(payment?.paidAtMs ?? null),
    paid_seq: payment?.paidSeq ?? null,
  }));
  return sql`
    select * from json_to_recordset(${JSON.stringify(rows)}::json)
      as changed (id bigint, "from" text, checked_before timestamptz, state text,
                  next_check_at timestamptz, check_class smallint, paid_at timestamptz,
                  paid_seq bigint)`;
}

/** Of the quotes in a table `changed`. Ends in a condition, to which others can be added. */
function updateChanged(nowMs: number) {
  return sql`
    update quotes set
      state = changed.state,
      next_check_at = changed.next_check_at,
      check_class = coalesce(changed.check_class, quotes.check_class),
      checked_at = ${new Date(nowMs)},
      checks = quotes.checks + 1,
      paid_at = coalesce(changed.paid_at, quotes.paid_at),
      paid_seq = coalesce(changed.paid_seq, quotes.paid_seq)
    from changed
    where quotes.id = changed.id`;
}

interface HeldQuoteRow {
  id: number;
  quote_id: string;
  pubkey: string;
  request: string;
  payment_hash: string | null;
  amount_sat: number;
  state: QuoteState;
  created_at: Date;
  expires_at: Date;
  paid_at: Date | null;
  checked_at: Date | null;
}

function toHeldQuote(row: HeldQuoteRow): HeldQuote {
  return {
    id: row.id,
    quoteId: row.quote_id,
    pubkey: row.pubkey,
    request: row.request,
    paymentHash: row.payment_hash,
    amountSat: row.amount_sat,
    state: row.state,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at.getTime(),
    paidAtMs: row.paid_at?.getTime() ?? null,
    checkedAtMs: row.checked_at?.getTime() ?? null,
  };
}

/** A table of when the check of each class is to come at the latest. */
function latestByClass(nowMs: number, withinMs: Readonly<Record<CheckClass, number>>) {
  const latest = Object.entries(withinMs).map(([checkClass, ms]) => ({
    check_class: Number(checkClass),
    next_check_at: new Date(nowMs + ms).toISOString(),
  }));
  return sql`
    select * from json_to_recordset(${JSON.stringify(latest)}::json)
      as latest (check_class smallint, next_check_at timestamptz)`;
}

function checkColumns(next: NextCheck | null) {
  return { next_check_at: toIso(next?.atMs ?? null), check_class: next?.checkClass ?? null };
}

function toIso(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
