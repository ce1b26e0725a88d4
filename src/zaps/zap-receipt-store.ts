import { type RawBuilder, sql } from 'kysely';
import { columnInValues, jsonRows, lockRows, statementNow } from '../database/sql.ts';
import { type Db, type Tx, transaction } from '../database/transaction.ts';
import { HISTORY_RETENTION_MS } from '../limits.ts';
import type { DeliveryUpdate, RelayStatus } from './delivery-policy.ts';
import { DELIVERY_LIMITS } from './limits.ts';

export interface NewZapReceipt {
  quoteRowId: number;
  id: string;
  pubkey: string;
  zapRequestId: string;
  eventJson: string;
  relayUrls: readonly string[];
  createdAtMs: number;
}

const RECEIPT_COLUMNS = {
  text: ['id', 'pubkey', 'zapRequestId', 'eventJson'],
  bigint: ['quoteRowId', 'createdAtMs'],
} as const;

const DELIVERY_COLUMNS = { text: ['receipt', 'relay'], bigint: ['createdAtMs'] } as const;

/** Returns the ids of those zap requests that already have a receipt. */
export async function findUsedZapRequests(db: Db, zapRequestIds: readonly string[]) {
  const rows = await db
    .selectFrom('zap_receipts')
    .select('zap_request_id')
    .where(columnInValues(db, 'zap_request_id', 'text', zapRequestIds))
    .execute();
  return new Set(rows.map((row) => row.zap_request_id));
}

/** Counts the receipts of each recipient, up to `limit`. */
export async function countReceiptsSince(
  db: Db,
  pubkeys: readonly string[],
  sinceMs: number,
  limit: number,
) {
  const recipients = [...new Set(pubkeys)].map((pubkey) => ({ pubkey }));
  const { rows } = await sql<{ pubkey: string; count: number }>`
    select recipients.pubkey, (
      select count(*) from (
        select 1 from zap_receipts
        where zap_receipts.pubkey = recipients.pubkey and created_at > ${sinceMs}
        order by created_at desc limit ${limit}
      ) as recent
    ) as count
    from ${jsonRows(db, { text: ['pubkey'] }, recipients)} as recipients
  `.execute(db);
  return new Map(rows.map(({ pubkey, count }) => [pubkey, count]));
}

/** Makes the receipts due immediately. Skips quotes and zap requests that already have a receipt. */
export async function addZapReceipts(tx: Tx, receipts: readonly NewZapReceipt[]): Promise<void> {
  if (receipts.length === 0) {
    return;
  }
  const rows = receipts.map(({ relayUrls: _, ...receipt }) => receipt);
  // Without `where`, SQLite would read the `on` as the condition of a join.
  await sql`
    insert into zap_receipts (id, quote, pubkey, zap_request_id, event, created_at)
    select id, "quoteRowId", pubkey, "zapRequestId", "eventJson", "createdAtMs"
    from ${jsonRows(tx, RECEIPT_COLUMNS, rows)} as signed
    where true
    on conflict do nothing
  `.execute(tx);
  const deliveries = receipts.flatMap(({ id: receipt, relayUrls, createdAtMs }) =>
    relayUrls.map((relay) => ({ receipt, relay, createdAtMs })),
  );
  await sql`
    insert into zap_receipt_deliveries (receipt, relay, state, next_attempt_at, give_up_at)
    select receipt, relay, 'open', "createdAtMs", "createdAtMs" + ${DELIVERY_LIMITS.giveUpAfterMs}
    from ${jsonRows(tx, DELIVERY_COLUMNS, deliveries)} as open
    where exists (select 1 from zap_receipts where zap_receipts.id = receipt)
    on conflict do nothing
  `.execute(tx);
}

export interface DueRelay {
  url: string;
  failures: number;
  /** When it last accepted a receipt; null if it never did. */
  acceptedAtMs: number | null;
}

export interface DueReceipt {
  id: string;
  eventJson: string;
  attempts: number;
  paymentHash: string | null;
}

/** Lists relays with open deliveries by URL, after this one. The recursive query needs one index lookup per relay. */
export async function listDeliveryRelays(db: Db, afterUrl: string, limit: number) {
  const { rows } = await sql<{ relay: string }>`
    with recursive listed (relay, position) as (
      select (${nextRelayQuery(sql`${afterUrl}`)}), 1
      union all
      select (${nextRelayQuery(sql`listed.relay`)}), position + 1
      from listed where relay is not null and position < ${limit}
    )
    select relay from listed where relay is not null order by position
  `.execute(db);
  return rows.map(({ relay }) => relay);
}

function nextRelayQuery(afterRelay: RawBuilder<unknown>) {
  return sql`
    select relay from zap_receipt_deliveries
    where next_attempt_at is not null and relay > ${afterRelay}
    order by relay limit 1`;
}

/** Finds those relays that have due deliveries and no backoff: fewest failures first, then the least recently used. */
export async function findDueRelays(db: Db, nowMs: number, urls: readonly string[]) {
  if (urls.length === 0) {
    return [];
  }
  const candidates = urls.map((url) => ({ url }));
  const { rows } = await sql<DueRelay>`
    select candidate.url, coalesce(failures, 0) as failures, accepted_at as "acceptedAtMs"
    from ${jsonRows(db, { text: ['url'] }, candidates)} as candidate
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
 * Claims due receipts of a relay. Those that became due last are first, so that new receipts do not wait behind a backlog.
 * If a result is not recorded before the claim times out, the receipt is due again.
 */
export async function claimDueReceipts(db: Db, relayUrl: string, nowMs: number, limit: number) {
  const claimedUntilMs = nowMs + DELIVERY_LIMITS.claimTimeoutMs;
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

const UPDATE_COLUMNS = {
  text: ['id', 'state', 'lastResult'],
  bigint: ['attempts', 'nextAttemptAtMs'],
} as const;

/** Records the results of sending receipts to a relay. @param relayStatus null if it did not change */
export async function recordDeliveries(
  db: Db,
  relayUrl: string,
  updates: readonly (DeliveryUpdate & { id: string })[],
  relayStatus: RelayStatus | null,
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

/** Ends deliveries whose deadline has passed. Returns whether more may be overdue. */
export async function giveUpOverdueDeliveries(db: Db, nowMs: number, limit: number) {
  const { numAffectedRows } = await sql`
    with overdue as (
      select receipt, relay from zap_receipt_deliveries
      -- The index contains only rows with state = 'open', so the query must have this condition.
      where state = 'open' and give_up_at <= ${nowMs}
      order by give_up_at limit ${limit}
      ${lockRows(db, 'for update skip locked')}
    )
    update zap_receipt_deliveries as delivery set
      state = 'given_up',
      next_attempt_at = null,
      -- A receipt that was never sent has no result.
      last_result = coalesce(last_result, (select last_error from relays where url = delivery.relay))
    from overdue
    where delivery.receipt = overdue.receipt and delivery.relay = overdue.relay
  `.execute(db);
  return numAffectedRows === BigInt(limit);
}

/** For `nutpost trace`. */
export async function findReceiptOfQuote(db: Db, quoteRowId: number) {
  const receipt = await db
    .selectFrom('zap_receipts')
    .select(['id', 'created_at as createdAtMs'])
    .where('quote', '=', quoteRowId)
    .executeTakeFirst();
  if (receipt === undefined) {
    return null;
  }
  const deliveries = await db
    .selectFrom('zap_receipt_deliveries as delivery')
    .leftJoin('relays', 'relays.url', 'delivery.relay')
    .select([
      'relay as relayUrl',
      'state',
      'attempts',
      'delivery.last_result as lastResult',
      'delivery.last_attempt_at as lastAttemptAtMs',
      'next_attempt_at as nextAttemptAtMs',
      'give_up_at as giveUpAtMs',
      'failures',
      'backoff_until as backoffUntilMs',
      'relays.last_error as lastError',
    ])
    .where('receipt', '=', receipt.id)
    .orderBy('relay')
    .execute();
  return {
    ...receipt,
    deliveries: deliveries.map(({ failures, backoffUntilMs, lastError, ...delivery }) => ({
      ...delivery,
      lastResult: delivery.lastResult || null,
      relayStatus:
        delivery.state === 'open' && failures
          ? { failures, backoffUntilMs, lastError: lastError || null }
          : null,
    })),
  };
}

type TracedReceipt = NonNullable<Awaited<ReturnType<typeof findReceiptOfQuote>>>;

export type TracedDelivery = TracedReceipt['deliveries'][number];

/** Deletes up to `limit` zap requests that are not needed any more. Returns whether more may exist. */
export async function pruneZapRequests(db: Db, limit: number): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update quotes set zap_request = null where id in (
      select id from quotes
      where state = 'ISSUED' and zap_request is not null
        and paid_at < ${statementNow(db)} - ${HISTORY_RETENTION_MS}
      order by paid_at limit ${limit}
      ${lockRows(db, 'for update skip locked')}
    )
  `.execute(db);
  return numAffectedRows === BigInt(limit);
}
