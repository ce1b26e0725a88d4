import { sql } from 'kysely';
import { columnInValues, jsonRows, lockRows, statementNow } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';
import { HISTORY_RETENTION_MS } from '../limits.ts';
import { GIVE_UP_AFTER_MS } from './limits.ts';

export interface NewZapReceipt {
  quote: number;
  id: string;
  pubkey: string;
  zapRequestId: string;
  eventJson: string;
  relayUrls: readonly string[];
  /** When the payment was recorded (milliseconds since 1970). */
  createdAtMs: number;
}

type TracedReceipt = NonNullable<Awaited<ReturnType<typeof findReceiptOfQuote>>>;

export type TracedDelivery = TracedReceipt['deliveries'][number];

const RECEIPT_COLUMNS = {
  quote: 'bigint',
  id: 'text',
  pubkey: 'text',
  zapRequestId: 'text',
  eventJson: 'text',
  createdAtMs: 'bigint',
} as const;

const DELIVERY_COLUMNS = { receipt: 'text', relay: 'text', createdAtMs: 'bigint' } as const;

export async function findZapRequests(db: Db, quotes: readonly number[]) {
  const { rows } = await sql<{ id: number; zap_request: string }>`
    select id, zap_request from quotes
    where zap_request is not null
      and ${columnInValues(db, 'id', 'bigint', quotes)}
  `.execute(db);
  return new Map(rows.map((row) => [row.id, row.zap_request]));
}

export async function findUsedZapRequests(db: Db, zapRequestIds: readonly string[]) {
  const rows = await db
    .selectFrom('zap_receipts')
    .select('zap_request_id')
    .where(columnInValues(db, 'zap_request_id', 'text', zapRequestIds))
    .execute();
  return new Set(rows.map((row) => row.zap_request_id));
}

/** Counts the receipts of each recipient since a time. Stops counting at the limit. */
export async function countReceiptsSince(
  db: Db,
  pubkeys: readonly string[],
  sinceMs: number,
  limit: number,
) {
  const wanted = [...new Set(pubkeys)].map((pubkey) => ({ pubkey }));
  const { rows } = await sql<{ pubkey: string; count: number }>`
    select wanted.pubkey, (
      select count(*) from (
        select 1 from zap_receipts
        where zap_receipts.pubkey = wanted.pubkey and created_at > ${sinceMs}
        order by created_at desc limit ${limit}
      ) as recent
    ) as count
    from ${jsonRows(db, { pubkey: 'text' }, wanted)} as wanted
  `.execute(db);
  return new Map(rows.map(({ pubkey, count }) => [pubkey, count]));
}

/** Makes the receipts due immediately. Skips quotes and zap requests that already have a receipt. */
export async function addZapReceipts(tx: Tx, receipts: readonly NewZapReceipt[]): Promise<void> {
  if (receipts.length === 0) {
    return;
  }
  const rows = receipts.map(({ relayUrls: _, ...receipt }) => receipt);
  const { rows: insertedRows } = await sql<{ quote: number }>`
    insert into zap_receipts (id, quote, pubkey, zap_request_id, event, created_at)
    select id, quote, pubkey, "zapRequestId", "eventJson", "createdAtMs"
    from ${jsonRows(tx, RECEIPT_COLUMNS, rows)} as signed
    where true
    on conflict do nothing
    returning quote
  `.execute(tx);
  const insertedQuotes = new Set(insertedRows.map(({ quote }) => quote));
  const deliveries = receipts
    .filter(({ quote }) => insertedQuotes.has(quote))
    .flatMap(({ id: receipt, relayUrls, createdAtMs }) =>
      relayUrls.map((relay) => ({ receipt, relay, createdAtMs })),
    );
  await sql`
    insert into zap_receipt_deliveries (receipt, relay, state, next_attempt_at, give_up_at)
    select receipt, relay, 'open', "createdAtMs", "createdAtMs" + ${GIVE_UP_AFTER_MS}
    from ${jsonRows(tx, DELIVERY_COLUMNS, deliveries)} as open
  `.execute(tx);
}

/** @param quote `quotes.id` */
export async function findReceiptOfQuote(db: Db, quote: number) {
  const receipt = await db
    .selectFrom('zap_receipts')
    .select(['id', 'created_at as createdAtMs'])
    .where('quote', '=', quote)
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
      /** Null if the relay is healthy or the delivery has ended. */
      relayStatus:
        delivery.state === 'open' && failures
          ? { failures, backoffUntilMs, lastError: lastError || null }
          : null,
    })),
  };
}

/** Deletes old receipts with their deliveries. @returns whether more old receipts may exist */
export async function pruneZapReceipts(db: Db, limit: number): Promise<boolean> {
  const { numAffectedRows } = await sql`
    delete from zap_receipts where id in (
      select id from zap_receipts
      where created_at < ${statementNow(db)} - ${HISTORY_RETENTION_MS}
      order by created_at limit ${limit}
    )
  `.execute(db);
  return numAffectedRows === BigInt(limit);
}

/** Like {@link pruneZapReceipts}, for the zap requests of quotes that were issued. */
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

/** Like {@link pruneZapReceipts}, for relays that were not used since. */
export async function pruneRelays(db: Db, limit: number): Promise<boolean> {
  const { numAffectedRows } = await sql`
    delete from relays where url in (
      select url from relays
      where last_attempt_at < ${statementNow(db)} - ${HISTORY_RETENTION_MS}
      limit ${limit}
    )
  `.execute(db);
  return numAffectedRows === BigInt(limit);
}
