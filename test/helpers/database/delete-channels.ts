import type { Db } from '../../../src/database/transaction.ts';

/** Deletes all notification channels, one at a time, because a running service locks them in another order. */
export async function deleteChannels(db: Db): Promise<void> {
  const channels = await db.selectFrom('notification_channels').select('id').execute();
  for (const { id } of channels) {
    await db.deleteFrom('notification_channels').where('id', '=', id).execute();
  }
}
