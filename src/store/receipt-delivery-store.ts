import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DeliveryStep, RelayStanding } from '../domain/receipt-delivery.ts';
import { anyOf } from './any-of.ts';
import type { Schema } from './schema.ts';

/** A relay that receipts are due at, and that does not rest. */
export interface DueRelay {
  /** Normalised. */
  url: string;
  /** Consecutive failures. */
  failures: number;
  /** Whether it ever accepted a receipt. */
  hasAccepted: boolean;
}

/** A receipt that is due at a relay. */
export interface DueReceipt {
  /** Event id, hex. */
  id: string;
  /** The signed event in JSON. */
  text: string;
  /** How often it was sent to this relay. */
  tries: number;
  /** Hex; null if the invoice of an older row could not be read. */
  paymentHash: string | null;
}

/** What to store about a receipt that was sent to a relay. */
export interface TriedReceipt extends DeliveryStep {
  /** Event id, hex. */
  id: string;
}

/** The outbox of zap receipts. Times in milliseconds since 1970. */
export class ReceiptDeliveryStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /**
   * Lists relays (normalised URLs) that have open deliveries, in order: one index lookup for each relay,
   * however many deliveries it has.
   *
   * @param options.after only later ones; empty for all
   */
  async relaysWithOpen(options: { after: string; limit: number }): Promise<string[]> {
    const { rows } = await sql<{ relay: string }>`
      with recursive waiting (relay, place) as (
        select (${firstRelayAfter(sql`${options.after}`)}), 1
        union all
        select (${firstRelayAfter(sql`waiting.relay`)}), place + 1
        from waiting where relay is not null and place < ${options.limit}
      )
      select relay from waiting where relay is not null order by place
    `.execute(this.#db);
    return rows.map(({ relay }) => relay);
  }

  /** Finds those of these relays that receipts are due at; healthy ones first, then the longest unused. */
  async dueAmong(urls: readonly string[], nowMs: number): Promise<DueRelay[]> {
    if (urls.length === 0) {
      return [];
    }
    const now = new Date(nowMs);
    const { rows } = await sql<DueRelay>`
      select named.url, coalesce(failures, 0) as failures, accepted_at is not null as "hasAccepted"
      from json_array_elements_text(${JSON.stringify(urls)}::json) as named (url)
        left join relays on relays.url = named.url
      where (rest_until is null or rest_until <= ${now})
        and (
          select next_try_at from zap_receipt_deliveries
          where relay = named.url and next_try_at is not null
            and (claimed_until is null or claimed_until <= ${now})
          order by next_try_at limit 1
        ) <= ${now}
      order by failures, relays.last_try_at
    `.execute(this.#db);
    return rows;
  }

  /**
   * Claims receipts that are due at a relay: until the claim ends, no other worker takes them. The newest
   * come first, so that none waits behind a backlog that the relay accepts only slowly.
   */
  async claim(
    url: string,
    claim: { nowMs: number; untilMs: number; limit: number },
  ): Promise<DueReceipt[]> {
    const now = new Date(claim.nowMs);
    const { rows } = await sql<DueReceipt>`
      with due as (
        select receipt from zap_receipt_deliveries
        where relay = ${url} and next_try_at is not null and next_try_at <= ${now}
          and (claimed_until is null or claimed_until <= ${now})
        order by next_try_at desc limit ${claim.limit}
        for update skip locked
      )
      update zap_receipt_deliveries as delivery set claimed_until = ${new Date(claim.untilMs)}
      from due
      where delivery.receipt = due.receipt and delivery.relay = ${url}
      returning delivery.receipt as id, tries,
        (select event from zap_receipts where id = delivery.receipt) as text,
        (
          select payment_hash from quotes join zap_receipts on zap_receipts.quote = quotes.id
          where zap_receipts.id = delivery.receipt
        ) as "paymentHash"
    `.execute(this.#db);
    return rows;
  }

  /** Stores the results of receipts that were sent, and ends their claims. */
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
      update zap_receipt_deliveries as delivery set
        state = tried.state,
        next_try_at = tried.next_try_at,
        claimed_until = null,
        tries = delivery.tries + 1,
        last_word = tried.word,
        last_try_at = ${new Date(nowMs)}
      from json_to_recordset(${JSON.stringify(rows)}::json)
        as tried (id text, state text, next_try_at timestamptz, word text)
      where delivery.relay = ${url} and delivery.receipt = tried.id and delivery.state = 'open'
    `.execute(this.#db);
  }

  /** Ends the claims of receipts (event ids) that were not sent; they stay due. */
  async release(url: string, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) {
      return;
    }
    await this.#db
      .updateTable('zap_receipt_deliveries')
      .set({ claimed_until: null })
      .where('relay', '=', url)
      .where('receipt', 'in', anyOf(ids))
      .execute();
  }

  /** Stores how a relay stands after receipts were sent to it. */
  async recordRelay(
    url: string,
    { failures, restUntilMs, word, hasAccepted }: RelayStanding & { hasAccepted: boolean },
    nowMs: number,
  ): Promise<void> {
    const standing = {
      failures,
      rest_until: restUntilMs === null ? null : new Date(restUntilMs),
      last_word: word,
      last_try_at: new Date(nowMs),
      ...(hasAccepted && { accepted_at: new Date(nowMs) }),
    };
    await this.#db
      .insertInto('relays')
      .values({ url, ...standing })
      .onConflict((conflict) => conflict.column('url').doUpdateSet(standing))
      .execute();
  }

  /**
   * Gives up deliveries whose time is over. One that was never sent keeps the relay's trouble as its reason.
   *
   * The condition on `state`, rather than `next_try_at`, selects the index of this query.
   *
   * @returns whether there may be more than `limit` of them
   */
  async giveUpOverdue(nowMs: number, limit: number): Promise<boolean> {
    const { rows } = await sql`
      with overdue as (
        select receipt, relay from zap_receipt_deliveries
        where state = 'open' and give_up_at <= ${new Date(nowMs)}
        order by give_up_at limit ${limit}
        for update skip locked
      )
      update zap_receipt_deliveries as delivery set
        state = 'given_up',
        next_try_at = null,
        claimed_until = null,
        last_word = coalesce(last_word, (select last_word from relays where url = delivery.relay))
      from overdue
      where delivery.receipt = overdue.receipt and delivery.relay = overdue.relay
      returning 1
    `.execute(this.#db);
    return rows.length === limit;
  }
}

function firstRelayAfter(relay: RawBuilder<unknown>) {
  return sql`
    select relay from zap_receipt_deliveries
    where next_try_at is not null and relay > ${relay}
    order by relay limit 1`;
}
