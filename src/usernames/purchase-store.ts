import { sql, type Updateable } from 'kysely';
import type { DatabaseSchema } from '../database/schema.ts';
import { columnInValues, databaseNow, jsonRows } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';
import { HISTORY_RETENTION_MS } from '../limits.ts';
import type { OutputPlan } from '../mints/ecash.ts';

// The journal of username purchases.
//
// A run is one attempt to complete an open purchase. It needs the purchase's lease, so that only one run at a time
// works on it. If the process of a run dies, another run takes over when the lease expires. If a run has lost its
// lease, its changes have no effect and return false.

/** Longer than any request to a mint takes. The holder renews the lease before each request. */
const PURCHASE_LEASE_MS = 30_000;

export interface NewPurchase {
  id: string;
  /** Hex. */
  pubkey: string;
  /** In lower case. */
  name: string;
  priceSat: number;
  /** The face value of the token. */
  paidSat: number;
  mintUrl: string;
  createdAtMs: number;
  sealedProofs: string;
  outputPlan: OutputPlan;
  /** The id of the attempt to complete the purchase that holds its lease. */
  leaseHolder: string;
}

/** An open purchase, for the run that completes it. */
export interface OpenPurchase
  extends Pick<NewPurchase, 'id' | 'pubkey' | 'name' | 'mintUrl' | 'sealedProofs'> {
  /** Every output plan that the mint may have received, newest last. */
  outputPlans: readonly OutputPlan[];
  attempts: number;
  /** When the mint first rejected a swap that was sent again after a lost response; null if that has not happened. */
  firstRejectedAtMs: number | null;
  /** When a swap first had no result although the mint had just reported the token as unspent; null if never. */
  firstUnansweredAtMs: number | null;
  /** When that last happened. */
  lastUnansweredAtMs: number | null;
}

/** An open purchase, for the operator. */
export interface OpenPurchaseSummary
  extends Pick<NewPurchase, 'id' | 'name' | 'mintUrl' | 'paidSat' | 'createdAtMs'> {
  attempts: number;
  /** Why the last attempt did not complete the purchase, in a few words; null before the first attempt has ended. */
  reason: string | null;
  nextAttemptAtMs: number | null;
}

export async function insertPurchase(tx: Tx, purchase: NewPurchase): Promise<void> {
  await tx
    .insertInto('username_purchases')
    .values({
      id: purchase.id,
      pubkey: purchase.pubkey,
      name: purchase.name,
      price_sat: purchase.priceSat,
      paid_sat: purchase.paidSat,
      mint_url: purchase.mintUrl,
      state: 'open',
      sealed_proofs: purchase.sealedProofs,
      outputs: JSON.stringify([purchase.outputPlan]),
      created_at: purchase.createdAtMs,
      next_attempt_at: purchase.createdAtMs,
      lease_holder: purchase.leaseHolder,
      lease_expires_at: purchase.createdAtMs + PURCHASE_LEASE_MS,
    })
    .execute();
}

/**
 * Records which proofs pay for a purchase.
 *
 * @param secretHashes see `hashSecret`
 * @returns false if some of them pay for another purchase: the caller must roll the transaction back
 */
export async function claimProofs(
  tx: Tx,
  id: string,
  secretHashes: readonly string[],
): Promise<boolean> {
  // Inserted in a fixed order, so that two purchases with the same proofs cannot deadlock.
  const rows = secretHashes.map((hash) => ({ hash, purchase: id }));
  const columns = { hash: 'text', purchase: 'text' } as const;
  const inserted = await sql`
    insert into username_purchase_proofs (secret_hash, purchase)
    select hash, purchase from ${jsonRows(tx, columns, rows)} as claimed
    where true
    order by hash
    on conflict (secret_hash) do nothing
  `.execute(tx);
  return inserted.numAffectedRows === BigInt(secretHashes.length);
}

/** Finds the purchases that any of these proofs paid for. */
export async function findPurchasesByProofs(db: Db, secretHashes: readonly string[]) {
  return await db
    .selectFrom('username_purchases')
    .select(['id', 'pubkey', 'name', 'state'])
    .where('id', 'in', (nested) =>
      nested
        .selectFrom('username_purchase_proofs')
        .select('purchase')
        .where(columnInValues(db, 'secret_hash', 'text', secretHashes)),
    )
    .execute();
}

/** @returns null if the purchase is not open */
export async function findOpenPurchase(db: Db, id: string): Promise<OpenPurchase | null> {
  const row = await db
    .selectFrom('username_purchases')
    .select([
      'id',
      'pubkey',
      'name',
      'mint_url as mintUrl',
      'sealed_proofs as sealedProofs',
      'outputs',
      'attempts',
      'first_rejected_at as firstRejectedAtMs',
      'first_unanswered_at as firstUnansweredAtMs',
      'last_unanswered_at as lastUnansweredAtMs',
    ])
    .where('id', '=', id)
    .where('state', '=', 'open')
    .$narrowType<{ sealedProofs: string }>()
    .executeTakeFirst();
  return row === undefined ? null : { ...row, outputPlans: JSON.parse(row.outputs) };
}

/**
 * Acquires the lease of an open purchase.
 *
 * @param holder identifies one run
 * @returns false if another run has the lease, or the purchase is closed
 */
export async function acquirePurchaseLease(
  db: Db,
  id: string,
  holder: string,
  nowMs: number,
): Promise<boolean> {
  const updated = await db
    .updateTable('username_purchases')
    .set({ lease_holder: holder, lease_expires_at: nowMs + PURCHASE_LEASE_MS })
    .where('id', '=', id)
    .where('state', '=', 'open')
    .where(isLeaseFree(nowMs))
    .executeTakeFirst();
  return updated.numUpdatedRows === 1n;
}

export function renewPurchaseLease(
  db: Db,
  id: string,
  holder: string,
  nowMs: number,
): Promise<boolean> {
  return updateLeased(db, id, holder, { lease_expires_at: nowMs + PURCHASE_LEASE_MS });
}

/** Releases the lease and sets when the next attempt is due. */
export async function schedulePurchaseRetry(
  db: Db,
  id: string,
  holder: string,
  retry: Pick<
    OpenPurchase,
    'attempts' | 'firstRejectedAtMs' | 'firstUnansweredAtMs' | 'lastUnansweredAtMs'
  > & { reason: string; nextAttemptAtMs: number },
): Promise<void> {
  await updateLeased(db, id, holder, {
    lease_holder: null,
    lease_expires_at: null,
    attempts: retry.attempts,
    reason: retry.reason,
    next_attempt_at: retry.nextAttemptAtMs,
    first_rejected_at: retry.firstRejectedAtMs,
    first_unanswered_at: retry.firstUnansweredAtMs,
    last_unanswered_at: retry.lastUnansweredAtMs,
  });
}

/** Lists the purchases that are due and have no lease. The purchase that has been due longest comes first. */
export async function listDuePurchases(db: Db, nowMs: number, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('username_purchases')
    .select('id')
    .where('state', '=', 'open')
    .where(isLeaseFree(nowMs))
    .where('next_attempt_at', '<=', nowMs)
    .orderBy('next_attempt_at')
    .limit(limit)
    .execute();
  return rows.map(({ id }) => id);
}

/** Stores all output plans. Must be called before the newest plan is sent to the mint. */
export function saveOutputPlans(
  db: Db,
  id: string,
  holder: string,
  outputPlans: readonly OutputPlan[],
): Promise<boolean> {
  return updateLeased(db, id, holder, { outputs: JSON.stringify(outputPlans) });
}

/** Completes a purchase. Its proofs stay recorded, so that they cannot pay for another purchase. */
export function completePurchase(
  tx: Tx,
  id: string,
  holder: string,
  nowMs: number,
): Promise<boolean> {
  return closePurchase(tx, id, holder, 'completed', null, nowMs);
}

/**
 * Closes a purchase whose token was not redeemed. The token can pay for another purchase.
 *
 * @param reason in a few words
 */
export async function failPurchase(
  tx: Tx,
  id: string,
  holder: string,
  reason: string,
  nowMs: number,
): Promise<boolean> {
  const isClosed = await closePurchase(tx, id, holder, 'failed', reason, nowMs);
  if (isClosed) {
    await tx.deleteFrom('username_purchase_proofs').where('purchase', '=', id).execute();
  }
  return isClosed;
}

/**
 * Deletes purchases that failed longer ago than {@link HISTORY_RETENTION_MS}.
 *
 * @param limit how many to delete at most
 * @returns whether more of them may exist
 */
export async function pruneFailedPurchases(db: Db, limit: number): Promise<boolean> {
  const pruned = await db
    .deleteFrom('username_purchases')
    .where('id', 'in', (old) =>
      old
        .selectFrom('username_purchases')
        .select('id')
        .where('state', '=', 'failed')
        .where('closed_at', '<', sql<number>`${databaseNow(db)} - ${HISTORY_RETENTION_MS}`)
        .limit(limit),
    )
    .executeTakeFirst();
  return pruned.numDeletedRows === BigInt(limit);
}

/** Lists open purchases, oldest first. */
export async function listOpenPurchases(db: Db, limit: number): Promise<OpenPurchaseSummary[]> {
  return await db
    .selectFrom('username_purchases')
    .select([
      'id',
      'name',
      'mint_url as mintUrl',
      'paid_sat as paidSat',
      'created_at as createdAtMs',
      'attempts',
      'reason',
      'next_attempt_at as nextAttemptAtMs',
    ])
    .where('state', '=', 'open')
    .orderBy('created_at')
    .limit(limit)
    .execute();
}

/** Counts the sold names, and adds up the face values of the tokens that paid for them. */
export async function readTotalSales(db: Db): Promise<{ namesSold: number; paidSat: number }> {
  const row = await db
    .selectFrom('username_purchases')
    .select((select) => [
      select.fn.sum<string | null>('paid_sat').as('paid'),
      select.fn.countAll<number>().as('namesSold'),
    ])
    .where('state', '=', 'completed')
    .executeTakeFirstOrThrow();
  return { namesSold: row.namesSold, paidSat: Number(row.paid ?? 0) };
}

export async function countPurchasesByState(db: Db, pubkey: string) {
  const rows = await db
    .selectFrom('username_purchases')
    .select((select) => ['state', select.fn.countAll<number>().as('count')])
    .where('pubkey', '=', pubkey)
    .groupBy('state')
    .execute();
  const counts = Object.fromEntries(rows.map(({ state, count }) => [state, count]));
  return { open: 0, completed: 0, failed: 0, ...counts };
}

function closePurchase(
  db: Db,
  id: string,
  holder: string,
  state: 'completed' | 'failed',
  reason: string | null,
  nowMs: number,
): Promise<boolean> {
  const released = { lease_holder: null, lease_expires_at: null, next_attempt_at: null };
  const change = { state, reason, closed_at: nowMs, sealed_proofs: null, ...released };
  return updateLeased(db, id, holder, change);
}

async function updateLeased(
  db: Db,
  id: string,
  holder: string,
  change: Updateable<DatabaseSchema['username_purchases']>,
): Promise<boolean> {
  const updated = await db
    .updateTable('username_purchases')
    .set(change)
    .where('id', '=', id)
    .where('lease_holder', '=', holder)
    .where('state', '=', 'open')
    .executeTakeFirst();
  return updated.numUpdatedRows === 1n;
}

function isLeaseFree(nowMs: number) {
  return sql<boolean>`coalesce(lease_expires_at, 0) < ${nowMs}`;
}
