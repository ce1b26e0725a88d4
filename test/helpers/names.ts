import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';

const DAY_MS = 24 * 60 * 60_000;

/** Gives a key a name that is free, as its purchase would. */
export async function giveName({ db }: Database, pubkey: string, name: string): Promise<void> {
  const claim = { pubkey, nowMs: Date.now(), graceMs: 30 * DAY_MS };
  const isTaken = await new Store(db).transaction((tx) => tx.usernames.take(name, claim));
  if (!isTaken) {
    throw new Error(`${name} is not free`);
  }
}
