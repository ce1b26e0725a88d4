import type { Database } from '../../../src/database/database.ts';
import { transaction } from '../../../src/database/transaction.ts';
import { claimUsername } from '../../../src/usernames/username-store.ts';
import { waitForNotificationDelivery } from '../database/database-notifications.ts';

const DAY_MS = 24 * 60 * 60_000;

/** Assigns a username as a purchase does, and waits until all listeners are notified. */
export async function assignUsername(
  database: Database,
  pubkey: string,
  name: string,
): Promise<void> {
  const claim = { pubkey, nowMs: Date.now(), graceMs: 30 * DAY_MS };
  const wasFree = await transaction(database.db, (tx) => claimUsername(tx, name, claim));
  if (!wasFree) {
    throw new Error(`the username ${name} is not free`);
  }
  await waitForNotificationDelivery(database);
}
