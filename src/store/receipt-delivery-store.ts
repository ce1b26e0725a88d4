import { type Kysely, sql } from 'kysely';
import {
  type DeliveryStep,
  LONGEST_DISTANCE_MS,
  LONGEST_REST_MS,
  type RelayStanding,
} from '../domain/receipt-delivery.ts';
import type { Schema } from './schema.ts';

/** A relay that receipts are due for, which no other process has and which does not rest. */
export interface DueRelay {
  /** Normalised. */
  url: string;
  /** Since when it waits for its turn (milliseconds since 1970). */
  waitingSinceMs: number;
  /** Whether this process has it already. */
  isMine: boolean;
  /** Whether anything was ever sent to it, or tried to be. */
  isKnown: boolean;
  /** How many connections in a row came to nothing. */
  failures: number;
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
    const { rows } = await sql<{
      url: string;
      is_due: boolean;
      waiting_since: Date;
      is_mine: boolean;
      is_known: boolean;
      failures: number;
    }>`
      with recursive waiting as (
        (${firstDelivery(options.after)})
        union all
        select later.relay, later.next_try_at
        from waiting cross join lateral (${firstDelivery(sql.ref('waiting.relay'))}) as later
      ), looked_at as (
        select relay, next_try_at from waiting limit ${options.lookAt}
      )
      select looked_at.relay as url,
        next_try_at <= ${new Date(nowMs)}
          and (owner is null or owner = ${processId})
          and not ${isResting(nowMs)} as is_due,
        greatest(next_try_at, rest_until, last_try_at) as waiting_since,
        owner is not null as is_mine,
        last_try_at is not null as is_known,
        coalesce(failures, 0) as failures
      from looked_at
        left join lateral (select * from relays where url = looked_at.relay limit 1) as relays on true
      order by looked_at.relay
    `.execute(this.#db);
    return {
      relays: rows
        .filter((row) => row.is_due)
        .map((row) => ({
          url: row.url,
          waitingSinceMs: row.waiting_since.getTime(),
          isMine: row.is_mine,
          isKnown: row.is_known,
          failures: row.failures,
        })),
      next: rows.length < options.lookAt ? null : (rows.at(-1)?.url ?? null),
    };
  }

  /**
   * Takes relays that no other process has and that do not rest.
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
   * What a relay is to be sent now, the longest due first; nothing, where this process does not have it.
   * It is a range of the index, said in such words that PostgreSQL takes it in order also where it has
   * no idea how much is due.
   *
   * @param bounds.maxBytes of the events together; there is always one, if any is due
   */
  async listDue(
    processId: string,
    url: string,
    nowMs: number,
    bounds: { maxRows: number; maxBytes: number },
  ): Promise<DueReceipt[]> {
    const { rows } = await sql<DueReceipt>`
      with due as materialized (
        select receipt, next_try_at, tries from zap_receipt_deliveries
        where relay >= ${url} and (relay, next_try_at) <= (${url}, ${new Date(nowMs)}::timestamptz)
          and next_try_at is not null
          and exists (select from relays where url = ${url} and owner = ${processId})
        order by relay, next_try_at limit ${bounds.maxRows}
      ), measured as (
        select id, event, tries, next_try_at,
          sum(octet_length(event)) over (order by next_try_at, id) - octet_length(event)
            as bytes_before
        from due join zap_receipts on zap_receipts.id = due.receipt
      )
      select id, event as text, tries from measured
      where bytes_before < ${bounds.maxBytes}
      order by next_try_at, id
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
  async endTurn(
    processId: string,
    url: string,
    standing: RelayStanding,
    nowMs: number,
  ): Promise<void> {
    const { failures, restUntilMs, word } = standing;
    await this.#db
      .updateTable('relays')
      .set({
        failures,
        rest_until: restUntilMs === null ? null : new Date(restUntilMs),
        last_word: word,
        last_try_at: new Date(nowMs),
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
      .where('url', 'in', urls)
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
   * a process whose clock jumped ahead does not give everything up.
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
      update zap_receipt_deliveries as delivery set state = 'given_up', next_try_at = null
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
   * @returns how many there were
   */
  async pullInFromFuture(nowMs: number): Promise<number> {
    const now = new Date(nowMs);
    const { rows } = await sql`
      with ahead as (
        select receipt, relay from zap_receipt_deliveries
        where next_try_at > ${now}
          and (coalesce(last_try_at, next_try_at) > ${new Date(nowMs + CLOCKS_APART_MS)}
            or next_try_at > ${new Date(nowMs + LONGEST_DISTANCE_MS)})
        order by receipt, relay
        for no key update
      )
      update zap_receipt_deliveries as delivery set next_try_at = ${now}
      from ahead where delivery.receipt = ahead.receipt and delivery.relay = ahead.relay
      returning 1
    `.execute(this.#db);
    return rows.length;
  }
}

/** The open delivery that is due first of the first relay behind a url. */
function firstDelivery(after: unknown) {
  return sql`
    select relay, next_try_at from zap_receipt_deliveries
    where next_try_at is not null and relay > ${after}
    order by relay, next_try_at limit 1`;
}

/** Whether a row of `relays`, or none, is to be left alone; a rest from a clock that was ahead is none. */
function isResting(nowMs: number) {
  return sql`coalesce(
    relays.rest_until > ${new Date(nowMs)}
      and relays.rest_until <= ${new Date(nowMs + LONGEST_REST_MS + CLOCKS_APART_MS)}
      and relays.last_try_at <= ${new Date(nowMs + CLOCKS_APART_MS)}, false)`;
}
