import type { Database } from '../../src/database/database.ts';
import { Store } from '../../src/store.ts';
import { allHeard } from './heard.ts';

const DAY_MS = 24 * 60 * 60_000;

/** Gives a key a name that is free, as its purchase would; all who listen have heard of it then. */
export async function giveName(database: Database, pubkey: string, name: string): Promise<void> {
  const claim = { pubkey, nowMs: Date.now(), graceMs: 30 * DAY_MS };
  const isTaken = await new Store(database.db).transaction((tx) => tx.usernames.take(name, claim));
  if (!isTaken) {
    throw new Error(`${name} is not free`);
  }
  await allHeard(database);
}
