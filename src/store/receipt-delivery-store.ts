import { type Kysely, type RawBuilder, sql } from 'kysely';
import {
  type DeliveryStep,
  LONGEST_DISTANCE_MS,
  LONGEST_REST_MS,
  NO_ANSWER,
  type TurnResult,
} from '../domain/receipt-delivery.ts';
import { anyOf } from './any-of.ts';
import type { Schema } from './schema.ts';

/** A relay that receipts are due for, which no other process has and which does not rest. */
export interface DueRelay {
  /** Normalised. */
  url: string;
  /** Since when it waits for its turn (milliseconds since 1970). */
  waitingSinceMs: number;
  /** How many turns in a row went badly. */
  failures: number;
  /** Whether a turn ever went well. */
  hasServed: boolean;
}

/** Some of the relays that are due, and where to go on. */
export interface DueRelays {
  relays: DueRelay[];
  /** The last relay that was looked at; null where there are no more behind it. */
  next: string | null;
}

/** A receipt that is to be sent to a relay now. */
export interface DueReceipt {
  /** Of the event, hex. */
  id: string;
  /** The signed event in JSON. */
  text: string;
  /** How often this relay was sent it. */
  tries: number;
  /** Whether the relay had no word for it the last time: it may be what the relay hangs up at. */
  isSuspect: boolean;
  /** Of the payment that it is for, hex; null where the invoice of an older row could not be read. */
  paymentHash: string | null;
}

/** What came of a receipt that a relay was sent. */
export interface TriedReceipt extends DeliveryStep {
  /** Of the event, hex. */
  id: string;
}

/**
 * Clocks of processes may be so far apart, and an ordinary correction is less; what was done later than
 * that was done by a clock that was ahead.
 */
const CLOCKS_APART_MS = 10_000;

/** The outbox of zap receipts: what is due at which relay, whose turn it is, and what came of it. */
export class ReceiptDeliveryStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /**
   * The relays that this process may send to now, in the order of their urls; one look into the index
   * for each relay that has open deliveries, however many they are.
   *
   * @param options.after only those behind this url; an empty text: from the first on
   * @param options.lookAt so many relays are looked at, due or not
   */
  async dueRelays(
    processId: string,
    nowMs: number,
    options: { after: string; lookAt: number },
  ): Promise<DueRelays> {
    const { rows } = await sql<FirstDelivery>`
      with recursive waiting as (
        (${firstDelivery(sql`relay > ${options.after}`)})
        union all
        select later.relay, later.next_try_at
        from waiting cross join lateral (${firstDelivery(sql`relay > waiting.relay`)}) as later
      ), looked_at as (
        select relay, next_try_at from waiting limit ${options.lookAt}
      )
      ${standings(processId, nowMs)}
    `.execute(this.#db);
    return {
      relays: dueOf(rows),
      next: rows.length < options.lookAt ? null : (rows.at(-1)?.url ?? null),
    };
  }

  /** Which of these relays this process may send to now: one look into the index for each. */
  async dueAmong(processId: string, nowMs: number, urls: readonly string[]): Promise<DueRelay[]> {
    if (urls.length === 0) {
      return [];
    }
    const { rows } = await sql<FirstDelivery>`
      with looked_at as (
        select named.url as relay, next_try_at
        from json_array_elements_text(${JSON.stringify(urls)}::json) as named (url)
          cross join lateral (${firstDelivery(sql`relay >= named.url`)}) as first
        where first.relay = named.url
      )
      ${standings(processId, nowMs)}
    `.execute(this.#db);
    return dueOf(rows);
  }

  /**
   * Takes relays that no other process has and that do not rest; of its own, those that it still has.
   *
   * @returns those that were had: none, where this process does not count as alive
   */
  async claim(processId: string, urls: readonly string[], nowMs: number): Promise<string[]> {
    if (urls.length === 0) {
      return [];
    }
    const { rows } = await sql<{ url: string }>`
      insert into relays (url, owner)
      select url, watch_processes.id
      from json_array_elements_text(${JSON.stringify(urls)}::json) as url
      join watch_processes on watch_processes.id = ${processId}
      order by url
      for key share of watch_processes
      on conflict (url) do update set owner = excluded.owner
      where (relays.owner is null or relays.owner = excluded.owner) and not ${isResting(nowMs)}
      returning url
    `.execute(this.#db);
    return rows.map((row) => row.url);
  }

  /**
   * What a relay is to be sent now, in this order: by turns what is due there the longest and what became
   * due last, so that nobody's new receipt waits behind all that somebody else heaped up at a relay that
   * takes little. Nothing, where this process does not have the relay.
   *
   * Both are ranges of the index, said in such words that PostgreSQL takes them in order also where it
   * has no idea how much is due.
   *
   * @param bounds.maxBytes of the events together; there is always one, if any is due
   */
  async listDue(
    processId: string,
    url: string,
    nowMs: number,
    bounds: { maxRows: number; maxBytes: number },
  ): Promise<DueReceipt[]> {
    const range = sql`
      from zap_receipt_deliveries
      where relay >= ${url} and (relay, next_try_at) <= (${url}, ${new Date(nowMs)}::timestamptz)
        and next_try_at is not null
        and exists (select from relays where url = ${url} and owner = ${processId})`;
    const { rows } = await sql<DueReceipt>`
      with longest as materialized (
        select receipt, tries, last_word ${range}
        order by relay, next_try_at, receipt limit ${Math.ceil(bounds.maxRows / 2)}
      ), newest as materialized (
        select receipt, tries, last_word ${range}
        order by relay desc, next_try_at desc, receipt desc limit ${Math.floor(bounds.maxRows / 2)}
      ), due as (
        select receipt, tries, last_word, min(place) as place
        from (
          select *, 2 * row_number() over () as place from longest
          union all
          select *, 2 * row_number() over () + 1 from newest
        ) as ends
        group by receipt, tries, last_word
      ), measured as (
        select id, quote, event, tries, last_word, place,
          sum(octet_length(event)) over (order by place) - octet_length(event) as bytes_before
        from due join zap_receipts on zap_receipts.id = due.receipt
      )
      select id, event as text, tries,
        last_word is not distinct from ${NO_ANSWER} as "isSuspect",
        (select payment_hash from quotes where quotes.id = measured.quote) as "paymentHash"
      from measured
      where bytes_before < ${bounds.maxBytes}
      order by place
    `.execute(this.#db);
    return rows;
  }

  /**
   * Writes what came of receipts that a relay was sent. What has ended stays so, whoever else sent it;
   * but that the relay has it is true whatever was thought before.
   *
   * @param nowMs when they were answered (milliseconds since 1970)
   */
  async record(url: string, tried: readonly TriedReceipt[], nowMs: number): Promise<void> {
    if (tried.length === 0) {
      return;
    }
    const rows = tried.map(({ id, state, nextTryAtMs, word }) => ({
      id,
      state,
      next_try_at: nextTryAtMs === null ? null : new Date(nextTryAtMs).toISOString(),
      word,
    }));
    await sql`
      with tried as (
        select * from json_to_recordset(${JSON.stringify(rows)}::json)
          as tried (id text, state text, next_try_at timestamptz, word text)
      ), locked as (
        select receipt, tried.state, tried.next_try_at, tried.word
        from zap_receipt_deliveries as delivery join tried on delivery.receipt = tried.id
        where relay = ${url}
          and (delivery.state = 'open' or (tried.state = 'accepted' and delivery.state <> 'accepted'))
        order by receipt
        for no key update of delivery
      )
      update zap_receipt_deliveries as delivery set
        state = locked.state,
        next_try_at = locked.next_try_at,
        tries = delivery.tries + 1,
        last_word = locked.word,
        last_try_at = ${new Date(nowMs)}
      from locked where delivery.receipt = locked.receipt and delivery.relay = ${url}
    `.execute(this.#db);
  }

  /**
   * Writes how a relay of this process stands after a turn. One that rests is given up, for any process
   * to take once it has rested.
   *
   * @param nowMs when the turn ended (milliseconds since 1970)
   */
  async endTurn(processId: string, url: string, result: TurnResult, nowMs: number): Promise<void> {
    const { failures, restUntilMs, word, wentWell } = result;
    await this.#db
      .updateTable('relays')
      .set({
        failures,
        rest_until: restUntilMs === null ? null : new Date(restUntilMs),
        last_word: word,
        last_try_at: new Date(nowMs),
        ...(wentWell && { accepted_at: new Date(nowMs) }),
        ...(restUntilMs !== null && { owner: null }),
      })
      .where('url', '=', url)
      .where('owner', '=', processId)
      .execute();
  }

  /** Gives relays up, for any process to take. */
  async release(processId: string, urls: readonly string[]): Promise<void> {
    if (urls.length === 0) {
      return;
    }
    await this.#db
      .updateTable('relays')
      .set({ owner: null })
      .where('owner', '=', processId)
      .where('url', 'in', anyOf(urls))
      .execute();
  }

  /** Gives up every relay that this process has. */
  async releaseAll(processId: string): Promise<void> {
    await this.#db
      .updateTable('relays')
      .set({ owner: null })
      .where('owner', '=', processId)
      .execute();
  }

  /**
   * Leaves what nothing came of for too long, at whatever relay: by the database's clock as well, so that
   * a process whose clock jumped ahead does not give everything up. What was never sent keeps why the
   * relay got nothing.
   *
   * @param limit so many at most
   * @returns how many there were
   */
  async giveUpOverdue(nowMs: number, limit: number): Promise<number> {
    const { rows } = await sql`
      with overdue as (
        select receipt, relay from zap_receipt_deliveries
        where state = 'open' and next_try_at is not null
          and give_up_at <= least(${new Date(nowMs)}, statement_timestamp())
        order by give_up_at limit ${limit}
        for update skip locked
      )
      update zap_receipt_deliveries as delivery
      set state = 'given_up', next_try_at = null,
        last_word = coalesce(last_word, (select last_word from relays where url = delivery.relay))
      from overdue
      where delivery.receipt = overdue.receipt and delivery.relay = overdue.relay
      returning 1
    `.execute(this.#db);
    return rows.length;
  }

  /**
   * Makes due at once what was planned by a clock that was ahead of the one that is right now: what was
   * made or tried in the future, or is planned further off than anything ever is.
   *
   * @param limit so many at most
   * @returns how many there were
   */
  async pullInFromFuture(nowMs: number, limit: number): Promise<number> {
    const now = new Date(nowMs);
    const { rows } = await sql`
      with ahead as (
        select receipt, relay from zap_receipt_deliveries
        where next_try_at > ${now}
          and (coalesce(last_try_at, next_try_at) > ${new Date(nowMs + CLOCKS_APART_MS)}
            or next_try_at > ${new Date(nowMs + LONGEST_DISTANCE_MS)})
        limit ${limit}
        for no key update skip locked
      )
      update zap_receipt_deliveries as delivery set next_try_at = ${now}
      from ahead where delivery.receipt = ahead.receipt and delivery.relay = ahead.relay
      returning 1
    `.execute(this.#db);
    return rows.length;
  }
}

/** The first open delivery of a relay that was looked at, and how that relay stands. */
interface FirstDelivery {
  url: string;
  is_due: boolean;
  waiting_since: Date;
  failures: number;
  has_served: boolean;
}

/** The open delivery that is due first of the first relay in a range of urls. */
function firstDelivery(range: RawBuilder<unknown>) {
  return sql`
    select relay, next_try_at from zap_receipt_deliveries
    where next_try_at is not null and ${range}
    order by relay, next_try_at limit 1`;
}

/** How the relays stand whose first open deliveries are `looked_at`. */
function standings(processId: string, nowMs: number) {
  return sql`
    select looked_at.relay as url,
      next_try_at <= ${new Date(nowMs)}
        and (owner is null or owner = ${processId})
        and not ${isResting(nowMs)} as is_due,
      greatest(next_try_at, rest_until, last_try_at) as waiting_since,
      coalesce(failures, 0) as failures,
      accepted_at is not null as has_served
    from looked_at
      left join lateral (select * from relays where url = looked_at.relay limit 1) as relays on true
    order by looked_at.relay`;
}

function dueOf(rows: readonly FirstDelivery[]): DueRelay[] {
  return rows
    .filter((row) => row.is_due)
    .map((row) => ({
      url: row.url,
      waitingSinceMs: row.waiting_since.getTime(),
      failures: row.failures,
      hasServed: row.has_served,
    }));
}

/** Whether a row of `relays`, or none, is to be left alone; a rest from a clock that was ahead is none. */
function isResting(nowMs: number) {
  return sql`coalesce(
    relays.rest_until > ${new Date(nowMs)}
      and relays.rest_until <= ${new Date(nowMs + LONGEST_REST_MS + CLOCKS_APART_MS)}
      and relays.last_try_at <= ${new Date(nowMs + CLOCKS_APART_MS)}, false)`;
}
