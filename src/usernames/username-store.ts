import { type RawBuilder, sql } from 'kysely';
import { DatabaseStore, lockRows } from '../database/sql.ts';
import type { UsernameStatus } from '../database/schema.ts';
import type { StoredUsername } from './username-claim.ts';

/**
 * Every name that is not free. A name in use is in `users.name` too: a foreign key connects the two, and each change of
 * both is one transaction.
 */
export class UsernameStore extends DatabaseStore {
  /** Reads why a name, in lower case, is not free; null if it has no row. */
  async find(name: string): Promise<StoredUsername | null> {
    return (await this.#names().where('name', '=', name).executeTakeFirst()) ?? null;
  }

  /** Lists the names that a key has, is buying or may take back. */
  async ofPubkey(pubkey: string): Promise<StoredUsername[]> {
    return await this.#names().where('pubkey', '=', pubkey).orderBy('name').execute();
  }

  /**
   * Holds a free name for a purchase.
   *
   * @returns false if it is not free
   */
  hold(
    name: string,
    { pubkey, purchase, nowMs }: { pubkey: string; purchase: string; nowMs: number },
  ): Promise<boolean> {
    const wish = nextWish(pubkey);
    return this.#occupy(name, { pubkey, status: 'pending', since: nowMs, purchase, wish });
  }

  /** Frees a name that {@link hold} took. */
  async letGo(name: string, purchase: string): Promise<void> {
    await this.db
      .deleteFrom('usernames')
      .where('name', '=', name)
      .where('purchase', '=', purchase)
      .execute();
  }

  /**
   * Gives a key a name that is free, or its own from before. The name that it leaves is released and stays reserved for
   * it during the grace period. In a transaction.
   *
   * @returns false if it cannot have the name: the caller must roll the transaction back
   */
  async take(
    name: string,
    { pubkey, nowMs, graceMs }: { pubkey: string; nowMs: number; graceMs: number },
  ): Promise<boolean> {
    const current = await this.#lockCurrent(pubkey);
    if (current?.name === name) {
      return true;
    }
    const since = nowMs;
    // Locked before the name that the key leaves, so that two keys that want each other's names do not deadlock.
    const wanted = await this.db
      .selectFrom('usernames')
      .select(['status', 'pubkey', 'until'])
      .where('name', '=', name)
      .modifyEnd(lockRows(this.db, 'for update'))
      .executeTakeFirst();
    if (wanted !== undefined && !isForTaking(wanted, pubkey, since)) {
      return false;
    }
    if (current !== null) {
      await this.#release(current.name, nowMs, graceMs);
    }
    if (wanted !== undefined) {
      await this.db
        .updateTable('usernames')
        .set({ pubkey, status: 'in_use', since, until: null, wish: nextWish(pubkey) })
        .where('name', '=', name)
        .execute();
    } else {
      const wish = nextWish(pubkey);
      if (!(await this.#insert(name, { pubkey, status: 'in_use', since, purchase: null, wish }))) {
        return false;
      }
    }
    await this.#resolve(name, pubkey);
    return true;
  }

  /**
   * Gives a key the name that its purchase holds, and releases the one that it leaves. A key that has asked for another
   * name since then keeps that one, and this one is released to it. In a transaction.
   *
   * @returns `not_held` if nothing was changed
   */
  async give(
    name: string,
    claim: { pubkey: string; purchase: string; nowMs: number; graceMs: number },
  ): Promise<'in_use' | 'released' | 'not_held'> {
    const { pubkey, purchase, nowMs, graceMs } = claim;
    const current = await this.#lockCurrent(pubkey);
    const held = await this.db
      .selectFrom('usernames')
      .select('wish')
      .where('name', '=', name)
      .where('purchase', '=', purchase)
      .modifyEnd(lockRows(this.db, 'for update'))
      .executeTakeFirst();
    if (held === undefined) {
      return 'not_held';
    }
    if (current !== null && current.wish > held.wish) {
      await this.#release(name, nowMs, graceMs);
      return 'released';
    }
    if (current !== null) {
      await this.#release(current.name, nowMs, graceMs);
    }
    await this.db
      .updateTable('usernames')
      .set({ status: 'in_use', purchase: null })
      .where('name', '=', name)
      .execute();
    await this.#resolve(name, pubkey);
    return 'in_use';
  }

  /**
   * Reserves a name for the operator.
   *
   * @returns false if it is not free
   */
  reserve(name: string, nowMs: number): Promise<boolean> {
    const since = nowMs;
    return this.#occupy(name, { pubkey: null, status: 'reserved', since, purchase: null, wish: 0 });
  }

  /**
   * Frees a name that is reserved or in its grace period.
   *
   * @returns false if it is neither
   */
  async release(name: string): Promise<boolean> {
    const freed = await this.db
      .deleteFrom('usernames')
      .where('name', '=', name)
      .where('status', 'in', ['reserved', 'released'])
      .executeTakeFirst();
    return freed.numDeletedRows === 1n;
  }

  /**
   * Takes a name away from its owner; it is free at once. In a transaction.
   *
   * @returns false if it is not in use
   */
  async takeAway(name: string): Promise<boolean> {
    const found = await this.db
      .updateTable('users')
      .set({ name: null })
      .where('name', '=', name)
      .executeTakeFirst();
    if (found.numUpdatedRows === 0n) {
      return false;
    }
    await this.db
      .deleteFrom('usernames')
      .where('name', '=', name)
      .where('status', '=', 'in_use')
      .execute();
    return true;
  }

  /** Reads the name that a key uses; locks the key until the transaction ends, so that its changes are serialised. */
  async #lockCurrent(pubkey: string): Promise<{ name: string; wish: number } | null> {
    await this.db
      .insertInto('users')
      .values({ pubkey })
      .onConflict((conflict) => conflict.column('pubkey').doNothing())
      .execute();
    await this.db
      .selectFrom('users')
      .select('pubkey')
      .where('pubkey', '=', pubkey)
      .modifyEnd(lockRows(this.db, 'for no key update'))
      .execute();
    const row = await this.db
      .selectFrom('usernames')
      .select(['name', 'wish'])
      .where('pubkey', '=', pubkey)
      .where('status', '=', 'in_use')
      .executeTakeFirst();
    return row ?? null;
  }

  /** Takes a name that is free, or whose grace is over. @returns false if it is neither */
  async #occupy(name: string, row: UsernameRow): Promise<boolean> {
    const lapsed = await this.db
      .updateTable('usernames')
      .set({ ...row, until: null })
      .where('name', '=', name)
      .where('status', '=', 'released')
      .where('until', '<=', row.since)
      .executeTakeFirst();
    return lapsed.numUpdatedRows === 1n || (await this.#insert(name, row));
  }

  /** Inserts a name. @returns false if it has a row */
  async #insert(name: string, row: UsernameRow): Promise<boolean> {
    // Without a target, because any of the table's unique indexes may conflict first.
    const inserted = await this.db
      .insertInto('usernames')
      .values({ name, ...row, until: null })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    return inserted.numInsertedOrUpdatedRows === 1n;
  }

  async #release(name: string, nowMs: number, graceMs: number): Promise<void> {
    await this.db
      .updateTable('usernames')
      .set({
        status: 'released',
        since: nowMs,
        until: nowMs + graceMs,
        purchase: null,
      })
      .where('name', '=', name)
      .execute();
  }

  async #resolve(name: string, pubkey: string): Promise<void> {
    await this.db.updateTable('users').set({ name }).where('pubkey', '=', pubkey).execute();
  }

  #names() {
    return this.db
      .selectFrom('usernames')
      .select(['name', 'pubkey', 'status', 'since as sinceMs', 'until as untilMs', 'purchase']);
  }
}

/** Whether a name was released: by this key, or so long ago that the grace period is over. */
function isForTaking(
  wanted: { status: UsernameStatus; pubkey: string | null; until: number | null },
  pubkey: string,
  now: number,
): boolean {
  return (
    wanted.status === 'released' &&
    (wanted.pubkey === pubkey || (wanted.until !== null && wanted.until <= now))
  );
}

/** What a row of a name that is not released has. */
interface UsernameRow {
  pubkey: string | null;
  status: UsernameStatus;
  since: number;
  purchase: string | null;
  wish: number | RawBuilder<number>;
}

/** Orders the names that a key asked for, which the clocks of several processes cannot do. */
function nextWish(pubkey: string): RawBuilder<number> {
  return sql<number>`(
    select coalesce(max(wish), 0) + 1 from usernames where pubkey = ${pubkey}
  )`;
}
