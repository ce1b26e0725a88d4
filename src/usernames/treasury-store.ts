import { sql } from 'kysely';
import { columnInValues, jsonRows } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';

export interface SealedProof {
  /** Identifies the proof (see `computeY`). */
  y: string;
  mintUrl: string;
  amountSat: number;
  /** When the mint stops accepting the proof; null if never. */
  expiresAtMs: number | null;
  sealed: string;
}

export type ExpiringEcash = Awaited<ReturnType<typeof listExpiringEcash>>[number];
export type MintBalance = Awaited<ReturnType<typeof listBalances>>[number];
export type Withdrawal = Awaited<ReturnType<typeof listWithdrawals>>[number];

export async function addTreasuryProofs(db: Db, proofs: readonly SealedProof[]): Promise<void> {
  const columns = {
    text: ['y', 'mintUrl', 'sealed'],
    bigint: ['amountSat', 'expiresAtMs'],
  } as const;
  await sql`
    insert into treasury_proofs (y, mint_url, amount_sat, expires_at, proof)
    select y, "mintUrl", "amountSat", "expiresAtMs", sealed
    from ${jsonRows(db, columns, proofs)} as added
    where true -- SQLite needs it before "on conflict"
    on conflict (y) do nothing
  `.execute(db);
}

export async function listTreasuryProofs(db: Db, mintUrl: string) {
  return await db
    .selectFrom('treasury_proofs')
    .select(['y', 'amount_sat as amount', 'expires_at as expiresAtMs', 'proof as sealed'])
    .where('mint_url', '=', mintUrl)
    .orderBy('amount_sat', 'desc')
    .orderBy('y')
    .execute();
}

/** Returns false if some proofs are missing: the caller must roll the transaction back. */
export async function moveProofsToWithdrawal(
  tx: Tx,
  withdrawal: Withdrawal,
  ys: readonly string[],
): Promise<boolean> {
  const removed = await tx
    .deleteFrom('treasury_proofs')
    .where(columnInValues(tx, 'y', 'text', ys))
    .executeTakeFirst();
  await tx
    .insertInto('treasury_withdrawals')
    .values({
      id: withdrawal.id,
      mint_url: withdrawal.mintUrl,
      amount_sat: withdrawal.amountSat,
      created_at: withdrawal.createdAtMs,
      proofs: withdrawal.sealedProofs,
    })
    .execute();
  return removed.numDeletedRows === BigInt(ys.length);
}

export async function findWithdrawal(db: Db, id: string) {
  return await selectWithdrawals(db).where('id', '=', id).executeTakeFirst();
}

export async function listWithdrawals(db: Db, limit: number) {
  return await selectWithdrawals(db)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute();
}

export async function listBalances(db: Db) {
  return await db
    .selectFrom('treasury_proofs')
    .select(({ fn }) => ['mint_url as mintUrl', SUM_SAT, fn.countAll<number>().as('proofCount')])
    .groupBy('mint_url')
    .orderBy('mint_url')
    .execute();
}

/** In PostgreSQL, the sum of a bigint has another type. */
const SUM_SAT = sql<number>`cast(sum(amount_sat) as bigint)`.as('amountSat');

/** Lists the sums that expire before a time or have expired, per mint and expiry, the soonest first. */
export async function listExpiringEcash(db: Db, beforeMs: number) {
  return await db
    .selectFrom('treasury_proofs')
    .select(['mint_url as mintUrl', SUM_SAT])
    // The filter excludes null; `coalesce` is for the type only.
    .select(({ fn }) => fn.coalesce('expires_at', sql<number>`0`).as('expiresAtMs'))
    .where('expires_at', '<', beforeMs)
    .groupBy(['mint_url', 'expires_at'])
    .orderBy('expires_at')
    .orderBy('mint_url')
    .execute();
}

/** Makes a key the only one that may seal ecash. Returns false if stored ecash is sealed with another key. */
export async function activateTreasuryKey(db: Db, keyId: string): Promise<boolean> {
  await db
    .insertInto('treasury_key')
    .values({ id: 1, key_id: keyId })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  if ((await readActiveTreasuryKeyId(db)) === keyId) {
    return true;
  }
  if (await needsTreasurySecret(db)) {
    return false;
  }
  await db.updateTable('treasury_key').set({ key_id: keyId }).execute();
  return true;
}

export async function readActiveTreasuryKeyId(db: Db): Promise<string | null> {
  const row = await db.selectFrom('treasury_key').select('key_id').executeTakeFirst();
  return row?.key_id ?? null;
}

/** Returns whether the service needs its treasury secret to use what is stored. Earlier withdrawals do not count. */
export async function needsTreasurySecret(db: Db): Promise<boolean> {
  const { rows } = await sql`
    select 1 where exists (select 1 from treasury_proofs)
      or exists (select 1 from username_purchases where state = 'open')
  `.execute(db);
  return rows.length > 0;
}

function selectWithdrawals(db: Db) {
  return db
    .selectFrom('treasury_withdrawals')
    .select([
      'id',
      'mint_url as mintUrl',
      'amount_sat as amountSat',
      'created_at as createdAtMs',
      'proofs as sealedProofs',
    ]);
}
