import { type RawBuilder, sql } from 'kysely';
import { jsonRows, lockRows } from '../database/sql.ts';
import { type Db, transaction } from '../database/transaction.ts';
import type { DeliveryUpdate, RelayStatus } from './delivery-policy.ts';

export interface DueRelay {
  url: string;
  failures: number;
  /** Null if the relay has never accepted a receipt. */
  acceptedAtMs: number | null;
}

export interface DueReceipt {
  id: string;
  eventJson: string;
  attempts: number;
  /** Hex; null if the invoice of an older row is unreadable. */
  paymentHash: string | null;
}

const UPDATE_COLUMNS = {
  id: 'text',
  state: 'text',
  attempts: 'bigint',
  nextAttemptAtMs: 'bigint',
  lastResult: 'text',
} as const;

// Times are in milliseconds since 1970.

/** Lists relays with open deliveries after this URL, in order. The recursive query needs one index lookup per relay. */
export async function listWaitingRelays(
  db: Db,
  afterUrl: string,
  limit: number,
): Promise<string[]> {
  const { rows } = await sql<{ relay: string }>`
    with recursive waiting (relay, position) as (
      select (${nextRelayQuery(sql`${afterUrl}`)}), 1
      union all
      select (${nextRelayQuery(sql`waiting.relay`)}), position + 1
      from waiting where relay is not null and position < ${limit}
    )
    select relay from waiting where relay is not null order by position
  `.execute(db);
  return rows.map(({ relay }) => relay);
}

/**
 * Returns those of these relays to which receipts are due, except relays in backoff. Relays with fewer failures are
 * first, then those that were used longest ago.
 */
export async function findDueRelays(
  db: Db,
  nowMs: number,
  urls: readonly string[],
): Promise<DueRelay[]> {
  const candidates = urls.map((url) => ({ url }));
  const { rows } = await sql<DueRelay>`
    select candidate.url, coalesce(failures, 0) as failures, accepted_at as "acceptedAtMs"
    from ${jsonRows(db, { url: 'text' }, candidates)} as candidate
    left join relays on relays.url = candidate.url
    where (backoff_until is null or backoff_until <= ${nowMs})
      and (
        select next_attempt_at from zap_receipt_deliveries as delivery
        where delivery.relay = candidate.url and next_attempt_at is not null
        order by next_attempt_at limit 1
      ) <= ${nowMs}
    order by coalesce(failures, 0), coalesce(last_attempt_at, 0)
  `.execute(db);
  return rows;
}

/**
 * Claims the due receipts of a relay that became due last, so that new receipts do not wait behind a backlog. They
 * become due again at `claimedUntilMs`, unless their results are recorded before.
 */
export async function claimDueReceipts(
  db: Db,
  relayUrl: string,
  { nowMs, claimedUntilMs, limit }: { nowMs: number; claimedUntilMs: number; limit: number },
): Promise<DueReceipt[]> {
  const { rows } = await sql<DueReceipt>`
    with due (id) as (
      select receipt from zap_receipt_deliveries
      where relay = ${relayUrl} and next_attempt_at is not null and next_attempt_at <= ${nowMs}
      order by next_attempt_at desc limit ${limit}
      ${lockRows(db, 'for update skip locked')}
    )
    update zap_receipt_deliveries as delivery set next_attempt_at = ${claimedUntilMs}
    from due
    where delivery.receipt = due.id and delivery.relay = ${relayUrl}
    returning receipt as id, attempts,
      (select event from zap_receipts where zap_receipts.id = receipt) as "eventJson",
      (
        select payment_hash from quotes join zap_receipts on zap_receipts.quote = quotes.id
        where zap_receipts.id = receipt
      ) as "paymentHash"
  `.execute(db);
  return rows;
}

/** @param batch.relayStatus null if it did not change */
export async function recordDeliveryBatch(
  db: Db,
  relayUrl: string,
  {
    updates,
    relayStatus,
  }: { updates: readonly (DeliveryUpdate & { id: string })[]; relayStatus: RelayStatus | null },
  nowMs: number,
): Promise<void> {
  await transaction(db, async (tx) => {
    await sql`
      update zap_receipt_deliveries as delivery set
        state = sent.state,
        attempts = sent.attempts,
        next_attempt_at = sent."nextAttemptAtMs",
        last_result = sent."lastResult",
        last_attempt_at = ${nowMs}
      from ${jsonRows(tx, UPDATE_COLUMNS, updates)} as sent
      where delivery.relay = ${relayUrl} and delivery.receipt = sent.id and delivery.state = 'open'
    `.execute(tx);
    if (relayStatus !== null) {
      const relay = {
        failures: relayStatus.failures,
        backoff_until: relayStatus.backoffUntilMs,
        last_error: relayStatus.lastError,
        last_attempt_at: nowMs,
        ...(updates.some(({ state }) => state === 'accepted') && { accepted_at: nowMs }),
      };
      await tx
        .insertInto('relays')
        .values({ url: relayUrl, ...relay })
        .onConflict((conflict) => conflict.column('url').doUpdateSet(relay))
        .execute();
    }
  });
}

/** If a receipt was never sent, the last error of the relay becomes the result. @returns whether more may be overdue */
export async function giveUpOverdueDeliveries(db: Db, nowMs: number, limit: number) {
  const { numAffectedRows } = await sql`
    with overdue as (
      select receipt, relay from zap_receipt_deliveries
      -- Not "next_attempt_at is not null", because the index has this condition.
      where state = 'open' and give_up_at <= ${nowMs}
      order by give_up_at limit ${limit}
      ${lockRows(db, 'for update skip locked')}
    )
    update zap_receipt_deliveries as delivery set
      state = 'given_up',
      next_attempt_at = null,
      last_result = coalesce(last_result, (select last_error from relays where url = delivery.relay))
    from overdue
    where delivery.receipt = overdue.receipt and delivery.relay = overdue.relay
  `.execute(db);
  return numAffectedRows === BigInt(limit);
}

function nextRelayQuery(afterRelay: RawBuilder<unknown>) {
  return sql`
    select relay from zap_receipt_deliveries
    where next_attempt_at is not null and relay > ${afterRelay}
    order by relay limit 1`;
}
