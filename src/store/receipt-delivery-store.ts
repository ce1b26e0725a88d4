import { type Kysely, type RawBuilder, sql } from 'kysely';
import { isAnyText, jsonRows, lockRows } from '../database/dialect.ts';
import type { Schema } from '../database/schema.ts';
import type { DeliveryStep, RelayStanding } from '../domain/receipt-delivery.ts';

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
    const named = urls.map((url) => ({ url }));
    const { rows } = await sql<Omit<DueRelay, 'hasAccepted'> & { acceptedAt: number | null }>`
      select named.url, coalesce(failures, 0) as failures, accepted_at as "acceptedAt"
      from ${jsonRows(this.#db, { url: 'text' }, named)} as named
        left join relays on relays.url = named.url
      where (rest_until is null or rest_until <= ${nowMs})
        and (
          select next_try_at from zap_receipt_deliveries
          where relay = named.url and next_try_at is not null
            and (claimed_until is null or claimed_until <= ${nowMs})
          order by next_try_at limit 1
        ) <= ${nowMs}
      order by failures, relays.last_try_at
    `.execute(this.#db);
    return rows.map(({ acceptedAt, ...relay }) => ({ ...relay, hasAccepted: acceptedAt !== null }));
  }

  /**
   * Claims receipts that are due at a relay: until the claim ends, no other worker takes them. The newest
   * come first, so that none waits behind a backlog that the relay accepts only slowly.
   */
  async claim(
    url: string,
    claim: { nowMs: number; untilMs: number; limit: number },
  ): Promise<DueReceipt[]> {
    const { rows } = await sql<DueReceipt>`
      with due (id) as (
        select receipt from zap_receipt_deliveries
        where relay = ${url} and next_try_at is not null and next_try_at <= ${claim.nowMs}
          and (claimed_until is null or claimed_until <= ${claim.nowMs})
        order by next_try_at desc limit ${claim.limit}
        ${lockRows(this.#db, 'for update skip locked')}
      )
      update zap_receipt_deliveries as delivery set claimed_until = ${claim.untilMs}
      from due
      where delivery.receipt = due.id and delivery.relay = ${url}
      returning receipt as id, tries,
        (select event from zap_receipts where zap_receipts.id = receipt) as text,
        (
          select payment_hash from quotes join zap_receipts on zap_receipts.quote = quotes.id
          where zap_receipts.id = receipt
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
      next_try_at: nextTryAtMs,
      word,
    }));
    const columns = { id: 'text', state: 'text', next_try_at: 'bigint', word: 'text' } as const;
    await sql`
      update zap_receipt_deliveries as delivery set
        state = tried.state,
        next_try_at = tried.next_try_at,
        claimed_until = null,
        tries = delivery.tries + 1,
        last_word = tried.word,
        last_try_at = ${nowMs}
      from ${jsonRows(this.#db, columns, rows)} as tried
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
      .where(isAnyText(this.#db, 'receipt', ids))
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
      rest_until: restUntilMs,
      last_word: word,
      last_try_at: nowMs,
      ...(hasAccepted && { accepted_at: nowMs }),
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
        where state = 'open' and give_up_at <= ${nowMs}
        order by give_up_at limit ${limit}
        ${lockRows(this.#db, 'for update skip locked')}
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
