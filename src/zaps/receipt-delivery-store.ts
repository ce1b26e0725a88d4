import { type RawBuilder, sql } from 'kysely';
import { DatabaseStore, jsonRows, lockRows } from '../database/sql.ts';
import type { DeliveryStep, RelayStanding } from './receipt-delivery.ts';

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

/** The results of a batch that was sent to a relay. */
interface SentBatch {
  /** By event id. */
  steps: readonly (DeliveryStep & { id: string })[];
  /** Null: unchanged. */
  standing: RelayStanding | null;
  /** Whether the relay accepted anything. */
  hasAccepted: boolean;
}

const STEP_COLUMNS = {
  id: 'text',
  state: 'text',
  tries: 'bigint',
  next_try_at: 'bigint',
  word: 'text',
} as const;

/** The outbox of zap receipts. Times in milliseconds since 1970. */
export class ReceiptDeliveryStore extends DatabaseStore {
  /**
   * Finds the relays that receipts are due at; healthy ones first, then the longest unused. The recursion makes it one
   * index lookup for each relay, however many deliveries it has.
   */
  async dueRelays(nowMs: number): Promise<DueRelay[]> {
    const { rows } = await sql<{ url: string; failures: number; accepted_at: number | null }>`
      with recursive waiting (relay) as (
        select (${firstRelayAfter(sql`''`)})
        union all
        select (${firstRelayAfter(sql`waiting.relay`)}) from waiting where relay is not null
      )
      select relay as url, coalesce(failures, 0) as failures, accepted_at
      from waiting left join relays on relays.url = relay
      where (rest_until is null or rest_until <= ${nowMs})
        and (
          select next_try_at from zap_receipt_deliveries as delivery
          where delivery.relay = waiting.relay and next_try_at is not null
          order by next_try_at limit 1
        ) <= ${nowMs}
      order by coalesce(failures, 0), coalesce(last_try_at, 0)
    `.execute(this.db);
    return rows.map(({ accepted_at, ...relay }) => ({
      ...relay,
      hasAccepted: accepted_at !== null,
    }));
  }

  /**
   * Takes receipts that are due at a relay: they are due again later, unless a result is recorded before. The newest
   * come first, so that none waits behind a backlog that the relay accepts only slowly.
   */
  async claim(
    url: string,
    { nowMs, untilMs, limit }: { nowMs: number; untilMs: number; limit: number },
  ): Promise<DueReceipt[]> {
    const { rows } = await sql<DueReceipt>`
      with due (id) as (
        select receipt from zap_receipt_deliveries
        where relay = ${url} and next_try_at is not null and next_try_at <= ${nowMs}
        order by next_try_at desc limit ${limit}
        ${lockRows(this.db, 'for update skip locked')}
      )
      update zap_receipt_deliveries as delivery set next_try_at = ${untilMs}
      from due
      where delivery.receipt = due.id and delivery.relay = ${url}
      returning receipt as id, tries,
        (select event from zap_receipts where zap_receipts.id = receipt) as text,
        (
          select payment_hash from quotes join zap_receipts on zap_receipts.quote = quotes.id
          where zap_receipts.id = receipt
        ) as "paymentHash"
    `.execute(this.db);
    return rows;
  }

  /** Stores what became of receipts that were sent to a relay, and how the relay stands. */
  async record(
    url: string,
    { steps, standing, hasAccepted }: SentBatch,
    nowMs: number,
  ): Promise<void> {
    const rows = steps.map(({ nextTryAtMs, ...step }) => ({ ...step, next_try_at: nextTryAtMs }));
    await this.db.transaction().execute(async (tx) => {
      await sql`
        update zap_receipt_deliveries as delivery set
          state = sent.state,
          tries = sent.tries,
          next_try_at = sent.next_try_at,
          last_word = sent.word,
          last_try_at = ${nowMs}
        from ${jsonRows(tx, STEP_COLUMNS, rows)} as sent
        where delivery.relay = ${url} and delivery.receipt = sent.id and delivery.state = 'open'
      `.execute(tx);
      if (standing !== null) {
        const relay = {
          failures: standing.failures,
          rest_until: standing.restUntilMs,
          last_word: standing.word,
          last_try_at: nowMs,
          ...(hasAccepted && { accepted_at: nowMs }),
        };
        await tx
          .insertInto('relays')
          .values({ url, ...relay })
          .onConflict((conflict) => conflict.column('url').doUpdateSet(relay))
          .execute();
      }
    });
  }

  /**
   * Gives up deliveries whose time is over. One that was never sent keeps the relay's trouble as its reason.
   *
   * The condition on `state`, rather than `next_try_at`, selects the index of this query.
   *
   * @returns whether there may be more than `limit` of them
   */
  async giveUpOverdue(nowMs: number, limit: number): Promise<boolean> {
    const { numAffectedRows } = await sql`
      with overdue as (
        select receipt, relay from zap_receipt_deliveries
        where state = 'open' and give_up_at <= ${nowMs}
        order by give_up_at limit ${limit}
        ${lockRows(this.db, 'for update skip locked')}
      )
      update zap_receipt_deliveries as delivery set
        state = 'given_up',
        next_try_at = null,
        last_word = coalesce(last_word, (select last_word from relays where url = delivery.relay))
      from overdue
      where delivery.receipt = overdue.receipt and delivery.relay = overdue.relay
    `.execute(this.db);
    return numAffectedRows === BigInt(limit);
  }
}

function firstRelayAfter(relay: RawBuilder<unknown>) {
  return sql`
    select relay from zap_receipt_deliveries
    where next_try_at is not null and relay > ${relay}
    order by relay limit 1`;
}
