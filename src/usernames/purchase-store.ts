import { randomUUID } from 'node:crypto';
import { sql, type UpdateObject } from 'kysely';
import type { DatabaseSchema } from '../database/schema.ts';
import { columnInValues, jsonRows } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';
import type { OutputPlan } from '../mints/ecash.ts';
import { PURCHASE_LEASE_MS } from './limits.ts';

// The journal of username purchases. A run is one attempt to complete an open purchase. It needs the purchase's lease,
// so that only one run at a time works on a purchase. The functions that change an open purchase do nothing if the run has
// lost the lease.

export interface OpenPurchase {
  id: string;
  pubkey: string;
  name: string;
  mintUrl: string;
  sealedProofs: string;
  /** Every plan that the mint may have received. The newest is the last. */
  outputPlans: OutputPlan[];
  leaseHolder: string;
  attempts: number;
  /** When a run first repeated the swap because the mint reported the token as unspent. */
  firstResentAtMs: number | null;
  /** When the newest swap without a response was sent. Stored before it is sent, so that a crash cannot hide it. */
  lastUnansweredAtMs: number | null;
}

export type OpenPurchaseSummary = Awaited<ReturnType<typeof listOpenPurchases>>[number];

export async function insertPurchase(
  tx: Tx,
  purchase: OpenPurchase,
  { priceSat, paidSat, nowMs }: { priceSat: number; paidSat: number; nowMs: number },
): Promise<void> {
  await tx
    .insertInto('username_purchases')
    .values({
      id: purchase.id,
      pubkey: purchase.pubkey,
      name: purchase.name,
      price_sat: priceSat,
      paid_sat: paidSat,
      mint_url: purchase.mintUrl,
      state: 'open',
      sealed_proofs: purchase.sealedProofs,
      outputs: JSON.stringify(purchase.outputPlans),
      created_at: nowMs,
      next_attempt_at: nowMs,
      last_unanswered_at: nowMs,
      lease_holder: purchase.leaseHolder,
      lease_expires_at: nowMs + PURCHASE_LEASE_MS,
    })
    .execute();
}

/** Returns false if some proofs pay for another purchase: the caller must roll the transaction back. */
export async function claimProofs(
  tx: Tx,
  id: string,
  secretHashes: readonly string[],
): Promise<boolean> {
  const rows = secretHashes.map((hash) => ({ hash, purchase: id }));
  const columns = { text: ['hash', 'purchase'] } as const;
  const inserted = await sql`
    insert into username_purchase_proofs (secret_hash, purchase)
    select hash, purchase from ${jsonRows(tx, columns, rows)} as claimed
    where true -- SQLite needs it before "on conflict"
    order by hash -- so that two purchases with the same proofs cannot deadlock
    on conflict (secret_hash) do nothing
  `.execute(tx);
  return inserted.numAffectedRows === BigInt(secretHashes.length);
}

/** Returns whether one of these proofs belongs to an open or completed purchase of the name by the key. */
export async function isTokenOfPurchase(
  db: Db,
  pubkey: string,
  name: string,
  secretHashes: readonly string[],
): Promise<boolean> {
  const purchase = await db
    .selectFrom('username_purchase_proofs')
    .innerJoin('username_purchases', 'id', 'purchase')
    .select('id')
    .where('pubkey', '=', pubkey)
    .where('name', '=', name)
    .where(columnInValues(db, 'secret_hash', 'text', secretHashes))
    .executeTakeFirst();
  return purchase !== undefined;
}

/** Acquires the leases of the purchases that have been due longest. Skips those with a lease. */
export async function acquireDuePurchases(db: Db, nowMs: number): Promise<OpenPurchase[]> {
  const leaseHolder: string = randomUUID();
  const isLeaseFree = sql<boolean>`coalesce(lease_expires_at, 0) < ${nowMs}`;
  const rows = await db
    .updateTable('username_purchases')
    .set({ lease_holder: leaseHolder, lease_expires_at: nowMs + PURCHASE_LEASE_MS })
    .where('id', 'in', (subquery) =>
      subquery
        .selectFrom('username_purchases')
        .select('id')
        .where('state', '=', 'open')
        .where('next_attempt_at', '<=', nowMs)
        .where(isLeaseFree)
        .orderBy('next_attempt_at')
        .limit(10),
    )
    // Checked again, because another process may have acquired the lease since the subquery was evaluated.
    .where('state', '=', 'open')
    .where(isLeaseFree)
    .returning([
      'id',
      'pubkey',
      'name',
      'mint_url as mintUrl',
      'sealed_proofs as sealedProofs',
      'outputs',
      'attempts',
      'first_unanswered_at as firstResentAtMs',
      'last_unanswered_at as lastUnansweredAtMs',
    ])
    .$narrowType<{ sealedProofs: string }>() // null only in closed purchases
    .execute();
  return rows.map(({ outputs, ...row }) => ({
    ...row,
    leaseHolder,
    outputPlans: JSON.parse(outputs) as OutputPlan[],
  }));
}

/** Call this before the swap is sent again. If it returns false, do not send it: another run may undo the purchase. */
export function recordSwapRequest(db: Db, purchase: OpenPurchase, nowMs: number): Promise<boolean> {
  return updateIfLeased(db, purchase, {
    lease_expires_at: nowMs + PURCHASE_LEASE_MS,
    first_unanswered_at: sql<number>`coalesce(first_unanswered_at, ${nowMs})`,
    last_unanswered_at: nowMs,
  });
}

/** Releases the lease and sets when the next attempt is due. */
export async function schedulePurchaseRetry(
  db: Db,
  purchase: OpenPurchase,
  retry: { reason: string; attempts: number; nextAttemptAtMs: number; isAnswered: boolean },
): Promise<void> {
  const { reason, attempts, nextAttemptAtMs, isAnswered } = retry;
  await updateIfLeased(db, purchase, {
    reason,
    attempts,
    next_attempt_at: nextAttemptAtMs,
    // This run has overwritten the time with that of its own request, which is no longer unanswered.
    ...(isAnswered && { last_unanswered_at: purchase.lastUnansweredAtMs }),
    lease_holder: null,
    lease_expires_at: null,
  });
}

/** Stores all output plans and renews the lease. Must be called before the newest plan is sent to the mint. */
export function saveOutputPlans(
  db: Db,
  purchase: OpenPurchase,
  outputPlans: readonly OutputPlan[],
  nowMs: number,
): Promise<boolean> {
  return updateIfLeased(db, purchase, {
    outputs: JSON.stringify(outputPlans),
    lease_expires_at: nowMs + PURCHASE_LEASE_MS,
    last_unanswered_at: nowMs,
  });
}

/** Completes a purchase if `failureReason` is null. Otherwise frees its proofs, so that they can pay for another. */
export async function closePurchase(
  tx: Tx,
  purchase: OpenPurchase,
  { failureReason, nowMs }: { failureReason: string | null; nowMs: number },
): Promise<boolean> {
  const isClosed = await updateIfLeased(tx, purchase, {
    state: failureReason === null ? 'completed' : 'failed',
    reason: failureReason,
    closed_at: nowMs,
    sealed_proofs: null,
    next_attempt_at: null,
    lease_holder: null,
    lease_expires_at: null,
  });
  if (isClosed && failureReason !== null) {
    await tx.deleteFrom('username_purchase_proofs').where('purchase', '=', purchase.id).execute();
  }
  return isClosed;
}

export async function listOpenPurchases(db: Db, limit: number) {
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

export async function readTotalSales(db: Db) {
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

async function updateIfLeased(
  db: Db,
  { id, leaseHolder }: OpenPurchase,
  change: UpdateObject<DatabaseSchema, 'username_purchases'>,
): Promise<boolean> {
  const updated = await db
    .updateTable('username_purchases')
    .set(change)
    .where('id', '=', id)
    .where('lease_holder', '=', leaseHolder)
    .where('state', '=', 'open')
    .executeTakeFirst();
  return updated.numUpdatedRows === 1n;
}
