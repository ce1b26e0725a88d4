import type { Database } from '../../src/database/database.ts';
import { Store } from '../../src/store.ts';
import { waitForNotifications } from './notification-barrier.ts';

const DAY_MS = 24 * 60 * 60_000;

/** Assigns a free name to a key, as a purchase does, and waits until all listeners are notified. */
export async function assignUsername(
  database: Database,
  pubkey: string,
  name: string,
): Promise<void> {
  const claim = { pubkey, nowMs: Date.now(), graceMs: 30 * DAY_MS };
  const isTaken = await new Store(database.db).transaction((tx) =>
    tx.usernames.assign(name, claim),
  );
  if (!isTaken) {
    throw new Error(`${name} is not free`);
  }
  await waitForNotifications(database);
}
