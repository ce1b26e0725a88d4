import type { Db } from './transaction.ts';

/** Stores when the newest backup was made, for the metrics and the doctor. */
export async function recordBackup(db: Db, madeAtMs: number): Promise<void> {
  await db
    .insertInto('newest_backup')
    .values({ id: 1, made_at: madeAtMs })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ made_at: madeAtMs }))
    .execute();
}

/** Returns null if `nutpost backup` was never used. */
export async function findNewestBackup(db: Db): Promise<number | null> {
  const row = await db.selectFrom('newest_backup').select('made_at').executeTakeFirst();
  return row?.made_at ?? null;
}
