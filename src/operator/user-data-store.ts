import { sql } from 'kysely';
import { lockRows } from '../database/sql.ts';
import type { Tx } from '../database/transaction.ts';
import { notifyRecipientChange } from '../recipients/recipient-directory.ts';
import { lockPaymentCounters } from '../recipients/user-store.ts';
import { countPurchasesByState } from '../usernames/purchase-store.ts';

/** Lists the tables that contain data of a user, with the condition that selects their rows. */
export function listUserRows(pubkey: string) {
  const ofUser = sql`pubkey = ${pubkey}`;
  const ofQuotes = sql`quote in (select id from quotes where ${ofUser})`;
  const ofReceipts = sql`receipt in (select id from zap_receipts where ${ofUser})`;
  return [
    { table: 'users', condition: ofUser },
    { table: 'usernames', condition: ofUser },
    { table: 'username_purchases', condition: ofUser },
    { table: 'quotes', condition: ofUser },
    { table: 'quote_events', condition: ofQuotes },
    { table: 'zap_receipts', condition: ofUser },
    { table: 'zap_receipt_deliveries', condition: ofReceipts },
    { table: 'notification_channels', condition: ofUser },
    { table: 'notifications', condition: ofQuotes },
    { table: 'audit_events', condition: ofUser },
  ] as const;
}

/**
 * Deletes the data of a user except open payments, with the counter that numbers them, and a block that is in force.
 * Changes nothing if there is no data, or if the user is buying a username. `keptQuotes` are unpaid and can still be
 * paid, or paid and not collected; `keptSat` is the sum of the paid ones.
 */
export async function deleteUserData(tx: Tx, pubkey: string) {
  if (!(await hasUserData(tx, pubkey))) {
    return 'not_found';
  }
  // New payments to the user wait until the transaction ends.
  await lockPaymentCounters(tx, [pubkey]);
  if ((await countPurchasesByState(tx, pubkey)).open > 0) {
    return 'purchase_open';
  }
  await notifyRecipientChange(tx, pubkey);
  // In the order in which payments are recorded and notifications sent, to avoid deadlocks.
  const lock = lockRows(tx, 'for no key update');
  await sql`select 1 from quotes where pubkey = ${pubkey} order by id ${lock}`.execute(tx);
  await tx.deleteFrom('notification_channels').where('pubkey', '=', pubkey).execute();
  const deleted = await tx
    .deleteFrom('quotes')
    .where('pubkey', '=', pubkey)
    .where('state', 'not in', ['INFLIGHT', 'PAID'])
    .where('watch_until', 'is', null)
    .executeTakeFirst();
  const paidCount = await renumberPayments(tx, pubkey);
  const kept = await tx
    .selectFrom('quotes')
    .select(({ fn }) => [
      fn.countAll<number>().as('quotes'),
      sql<number>`cast(coalesce(sum(amount_sat) filter (where paid_seq is not null), 0) as bigint)`.as(
        'sat',
      ),
    ])
    .where('pubkey', '=', pubkey)
    .executeTakeFirstOrThrow();
  await tx
    .deleteFrom('username_purchases')
    .where('pubkey', '=', pubkey)
    .where('state', '<>', 'open')
    .execute();
  const { block } = await tx
    .updateTable('users')
    .set({
      ...{ name: null, mint_url: null, lock_quotes: null, paid_count: paidCount },
      ...{ member_since: null, member_note: null },
    })
    .where('pubkey', '=', pubkey)
    .returning(sql<number>`case when unblocked_at is null then blocked_at end`.as('block'))
    .executeTakeFirstOrThrow();
  await tx
    .deleteFrom('usernames')
    .where('pubkey', '=', pubkey)
    .where('status', '<>', 'pending')
    .execute();
  if (kept.quotes === 0 && block === null) {
    await tx.deleteFrom('users').where('pubkey', '=', pubkey).execute();
  }
  return {
    deletedQuotes: Number(deleted.numDeletedRows),
    keptQuotes: kept.quotes,
    keptSat: kept.sat,
    keptBlock: block !== null,
  };
}

/** Returns whether any table except the audit trail has data of a user. */
async function hasUserData(tx: Tx, pubkey: string): Promise<boolean> {
  const selects = listUserRows(pubkey)
    .filter(({ table }) => table !== 'audit_events')
    .map(({ table, condition }) => sql`select 1 from ${sql.table(table)} where ${condition}`);
  const { rows } = await sql`${sql.join(selects, sql` union all `)} limit 1`.execute(tx);
  return rows.length > 0;
}

/** Numbers a recipient's payments from 1 without gaps, in their order. Returns their number. */
async function renumberPayments(tx: Tx, pubkey: string): Promise<number> {
  // First with negative numbers, because each statement must keep the numbers unique at every row.
  await sql`
    update quotes set paid_seq = -numbered.seq
    from (
      select id, row_number() over (order by paid_seq) as seq from quotes
      where pubkey = ${pubkey} and paid_seq is not null
    ) as numbered
    where quotes.id = numbered.id
  `.execute(tx);
  const renumbered = await tx
    .updateTable('quotes')
    .set({ paid_seq: sql`-paid_seq` })
    .where('pubkey', '=', pubkey)
    .where('paid_seq', '<', 0)
    .executeTakeFirst();
  return Number(renumbered.numUpdatedRows);
}
