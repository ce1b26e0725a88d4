import { sql } from 'kysely';
import type { UsernameStatus } from '../database/schema.ts';
import { BaseStore, lockRows } from '../database/sql.ts';
import { decideClaim, type StoredUsername } from './username-claim.ts';

/**
 * Every name that is not free. `users.name` repeats a name in use: a foreign key connects the two, and one transaction
 * changes both.
 */
export class UsernameStore extends BaseStore {
  /** @param name in lower case */
  async find(name: string): Promise<StoredUsername | null> {
    return (await this.#selectUsernames().where('name', '=', name).executeTakeFirst()) ?? null;
  }

  /** Lists the names that a key uses, is buying or can reclaim. */
  async listByPubkey(pubkey: string): Promise<StoredUsername[]> {
    return await this.#selectUsernames().where('pubkey', '=', pubkey).orderBy('name').execute();
  }

  /**
   * Holds a free name for a purchase.
   *
   * @returns false if the name is not free
   */
  hold(
    name: string,
    { pubkey, purchaseId, nowMs }: { pubkey: string; purchaseId: string; nowMs: number },
  ): Promise<boolean> {
    return this.#insertOrReplaceExpired(name, createRow(pubkey, 'pending', nowMs, purchaseId));
  }

  /** Frees a name that {@link hold} reserved for a purchase. */
  async releaseHold(name: string, purchaseId: string): Promise<void> {
    await this.db
      .deleteFrom('usernames')
      .where('name', '=', name)
      .where('purchase', '=', purchaseId)
      .execute();
  }

  /**
   * Gives a key a name that is free or reclaimable. Starts the grace period of the name that the key used before. Call
   * it in a transaction.
   *
   * @returns false if the key cannot have the name: the caller must roll the transaction back
   */
  async assign(
    name: string,
    { pubkey, nowMs, graceMs }: { pubkey: string; nowMs: number; graceMs: number },
  ): Promise<boolean> {
    const current = await this.#lockKeyAndReadName(pubkey);
    if (current?.name === name) {
      return true;
    }
    // Locked before the key's current name, which is not touched if this name belongs to another key. So two keys
    // that request each other's name do not deadlock.
    const stored = await this.#selectUsernames()
      .where('name', '=', name)
      .modifyEnd(lockRows(this.db, 'for update'))
      .executeTakeFirst();
    const claim = decideClaim(stored ?? null, pubkey, nowMs);
    if (claim !== 'free' && claim !== 'reclaimable') {
      return false;
    }
    if (current !== undefined) {
      await this.#startGracePeriod(current.name, nowMs, graceMs);
    }
    const row = createRow(pubkey, 'in_use', nowMs, null);
    if (stored !== undefined) {
      await this.db.updateTable('usernames').set(row).where('name', '=', name).execute();
    } else if (!(await this.#insert(name, row))) {
      return false;
    }
    await this.#setUserName(name, pubkey);
    return true;
  }

  /**
   * Gives a key the name that its purchase holds, and starts the grace period of the name that it used before. If the
   * key has got a name that it requested later, it keeps that one, and the purchased name is released instead. Call it
   * in a transaction.
   *
   * @returns false if the purchase does not hold the name
   */
  async assignHeld(
    name: string,
    options: { pubkey: string; purchaseId: string; nowMs: number; graceMs: number },
  ): Promise<boolean> {
    const { pubkey, purchaseId, nowMs, graceMs } = options;
    const current = await this.#lockKeyAndReadName(pubkey);
    const held = await this.db
      .selectFrom('usernames')
      .select('request_seq')
      .where('name', '=', name)
      .where('purchase', '=', purchaseId)
      .modifyEnd(lockRows(this.db, 'for update'))
      .executeTakeFirst();
    if (held === undefined) {
      return false;
    }
    if (current !== undefined && current.request_seq > held.request_seq) {
      await this.#startGracePeriod(name, nowMs, graceMs);
      return true;
    }
    if (current !== undefined) {
      await this.#startGracePeriod(current.name, nowMs, graceMs);
    }
    await this.db
      .updateTable('usernames')
      .set({ status: 'in_use', purchase: null })
      .where('name', '=', name)
      .execute();
    await this.#setUserName(name, pubkey);
    return true;
  }

  /**
   * Reserves a name for the operator.
   *
   * @returns false if the name is not free
   */
  reserve(name: string, nowMs: number): Promise<boolean> {
    return this.#insertOrReplaceExpired(name, createRow(null, 'reserved', nowMs, null));
  }

  /**
   * Frees a name that is reserved or in its grace period.
   *
   * @returns false if the name has another status
   */
  async free(name: string): Promise<boolean> {
    const deleted = await this.db
      .deleteFrom('usernames')
      .where('name', '=', name)
      .where('status', 'in', ['reserved', 'released'])
      .executeTakeFirst();
    return deleted.numDeletedRows === 1n;
  }

  /**
   * Takes a name away from its owner, without a grace period. Call it in a transaction.
   *
   * @returns false if the name is not in use
   */
  async revoke(name: string): Promise<boolean> {
    const updated = await this.db
      .updateTable('users')
      .set({ name: null })
      .where('name', '=', name)
      .executeTakeFirst();
    if (updated.numUpdatedRows === 0n) {
      return false;
    }
    await this.db
      .deleteFrom('usernames')
      .where('name', '=', name)
      .where('status', '=', 'in_use')
      .execute();
    return true;
  }

  /** Reads the name that a key uses. Locks the key until the transaction ends, so that changes to it are serialised. */
  async #lockKeyAndReadName(pubkey: string) {
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
    return await this.db
      .selectFrom('usernames')
      .select(['name', 'request_seq'])
      .where('pubkey', '=', pubkey)
      .where('status', '=', 'in_use')
      .executeTakeFirst();
  }

  /** @returns false if the name is not free */
  async #insertOrReplaceExpired(name: string, row: UsernameRow): Promise<boolean> {
    const replaced = await this.db
      .updateTable('usernames')
      .set(row)
      .where('name', '=', name)
      .where('status', '=', 'released')
      .where('until', '<=', row.since)
      .executeTakeFirst();
    return replaced.numUpdatedRows === 1n || (await this.#insert(name, row));
  }

  /** @returns false if the name has a row */
  async #insert(name: string, row: UsernameRow): Promise<boolean> {
    // The conflict clause has no target because any of the table's unique indexes may conflict first.
    const inserted = await this.db
      .insertInto('usernames')
      .values({ name, ...row })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    return inserted.numInsertedOrUpdatedRows === 1n;
  }

  async #startGracePeriod(name: string, nowMs: number, graceMs: number): Promise<void> {
    await this.db
      .updateTable('usernames')
      .set({ status: 'released', since: nowMs, until: nowMs + graceMs, purchase: null })
      .where('name', '=', name)
      .execute();
  }

  async #setUserName(name: string, pubkey: string): Promise<void> {
    await this.db.updateTable('users').set({ name }).where('pubkey', '=', pubkey).execute();
  }

  #selectUsernames() {
    return this.db
      .selectFrom('usernames')
      .select([
        'name',
        'pubkey',
        'status',
        'since as statusSinceMs',
        'until as reservedUntilMs',
        'purchase as purchaseId',
      ]);
  }
}

type UsernameRow = ReturnType<typeof createRow>;

/** Returns the columns of a name that is not released. */
function createRow(
  pubkey: string | null,
  status: UsernameStatus,
  since: number,
  purchase: string | null,
) {
  // Orders the names that a key requested. The clocks of several processes could disagree.
  const nextRequestSeq = sql<number>`(
    select coalesce(max(request_seq), 0) + 1 from usernames where pubkey = ${pubkey}
  )`;
  const request_seq = pubkey === null ? 0 : nextRequestSeq;
  return { pubkey, status, since, until: null, purchase, request_seq };
}
