import type { ChannelKind } from '../database/schema.ts';
import type { Db, Tx } from '../database/transaction.ts';

/** A channel as its owner sees it. */
export type NotificationChannel = Awaited<ReturnType<typeof listChannels>>[number];

export function listChannels(db: Db, pubkey: string) {
  return db
    .selectFrom('notification_channels')
    .select([
      'id',
      'kind',
      'site',
      'min_amount_sat as minAmountSat',
      'created_at as createdAtMs',
      'last_sent_at as lastSentAtMs',
      'failing_since as failingSinceMs',
      'last_error as lastError',
      'disabled_at as disabledAtMs',
    ])
    .where('pubkey', '=', pubkey)
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

/** Returns undefined if the key has no such channel. */
export function findChannel(db: Db, pubkey: string, id: string) {
  return db
    .selectFrom('notification_channels')
    .select(['id', 'pubkey', 'kind', 'site', 'sealed_target as sealedTarget'])
    .where('id', '=', id)
    .where('pubkey', '=', pubkey)
    .executeTakeFirst();
}

/** For the doctor. Returns undefined if there is no channel. */
export function findNewestChannel(db: Db) {
  return db
    .selectFrom('notification_channels')
    .select(['id', 'sealed_target as sealedTarget'])
    .orderBy('created_at', 'desc')
    .executeTakeFirst();
}

export interface NewChannel {
  id: string;
  pubkey: string;
  kind: ChannelKind;
  site: string | null;
  sealedTarget: string;
  minAmountSat: number;
  createdAtMs: number;
}

/** Adds a channel, or replaces the one with its id. */
export async function saveChannel(
  tx: Tx,
  { sealedTarget, minAmountSat, createdAtMs, ...columns }: NewChannel,
): Promise<void> {
  const row = {
    ...columns,
    sealed_target: sealedTarget,
    min_amount_sat: minAmountSat,
    created_at: createdAtMs,
  };
  const working = { failing_since: null, last_error: null, disabled_at: null };
  await retryChannel(tx, columns.id, createdAtMs);
  await tx
    .insertInto('notification_channels')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ ...row, ...working }))
    .execute();
}

/** Ends the backoff of a channel that has failed, because it may work again. */
export async function retryChannel(db: Db, id: string, nowMs: number): Promise<void> {
  await db
    .updateTable('notification_channels')
    .set({ not_before: nowMs, next_attempt_at: nowMs })
    .where('id', '=', id)
    .where('failing_since', 'is not', null)
    .execute();
}

export async function changeChannel(tx: Tx, id: string, minAmountSat: number): Promise<void> {
  await tx
    .updateTable('notification_channels')
    .set({ min_amount_sat: minAmountSat })
    .where('id', '=', id)
    .execute();
}

export async function deleteChannel(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('notification_channels').where('id', '=', id).execute();
}
