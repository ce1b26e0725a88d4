import { sql } from 'kysely';
import type { UsernameStatus } from '../database/schema.ts';
import { BaseStore, lockRows } from '../database/sql.ts';

/** A name with a row in `usernames`. Its status is in use, pending, released or reserved. */
export interface StoredUsername {
  /** In lower case. */
  name: string;
  /** The owner, the buyer or the previous owner (hex); null if the operator reserved the name. */
  pubkey: string | null;
  status: UsernameStatus;
  /** When the name got its status. If it is in use, when the owner requested it. */
  statusSinceMs: number;
  /** Until then, only the previous owner can get a released name. Null for other names. */
  graceEndsAtMs: number | null;
  /** The purchase that holds a pending name. Null for other names. */
  purchaseId: string | null;
}

/** Whether a name is available, independent of the key that requests it. */
export type UsernameAvailability = 'free' | 'in_use' | 'pending' | 'in_grace' | 'reserved';

export function resolveAvailability(
  stored: StoredUsername | null,
  nowMs: number,
): UsernameAvailability {
  if (stored === null) {
    return 'free';
  }
  if (stored.status !== 'released') {
    return stored.status;
  }
  return stored.graceEndsAtMs !== null && stored.graceEndsAtMs > nowMs ? 'in_grace' : 'free';
}

/** Whether a certain key can have a name. */
export type ClaimDecision =
  | 'owned'
  /** The key released the name, and its grace period has not ended. The key gets it back free of charge. */
  | 'reclaimable'
  /** A purchase of the name by the key is in progress. */
  | 'buying'
  | 'taken'
  | 'reserved'
  | 'free';

export function decideClaim(
  stored: StoredUsername | null,
  pubkey: string,
  nowMs: number,
): ClaimDecision {
  const isSameKey = stored?.pubkey === pubkey;
  const availability = resolveAvailability(stored, nowMs);
  switch (availability) {
    case 'free':
    case 'reserved':
      return availability;
    case 'in_use':
      return isSameKey ? 'owned' : 'taken';
    case 'pending':
      return isSameKey ? 'buying' : 'taken';
    case 'in_grace':
      return isSameKey ? 'reclaimable' : 'taken';
  }
}

/**
 * Stores every name that is not free. A name in use is also in `users.name`. A foreign key connects the two columns,
 * and each change writes both in one transaction.
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

  /** Frees a name that {@link hold} holds for a purchase. */
  async releaseHold(name: string, purchaseId: string): Promise<void> {
    await this.db
      .deleteFrom('usernames')
      .where('name', '=', name)
      .where('purchase', '=', purchaseId)
      .execute();
  }

  /**
   * Gives a key a name that is free or reclaimable. Starts the grace period of the name that the key used before.
   * Must be called in a transaction.
   *
   * @returns false if the key cannot have the name: the caller must roll the transaction back
   */
  async assign(
    name: string,
    { pubkey, nowMs, graceMs }: { pubkey: string; nowMs: number; graceMs: number },
  ): Promise<boolean> {
    const currentUsername = await this.#lockKeyAndReadName(pubkey);
    if (currentUsername?.name === name) {
      return true;
    }
    // Locks the requested name first, and the key's current name only if the key gets the requested one. Otherwise
    // two keys that request each other's name would deadlock.
    const stored = await this.#selectUsernames()
      .where('name', '=', name)
      .modifyEnd(lockRows(this.db, 'for update'))
      .executeTakeFirst();
    const claim = decideClaim(stored ?? null, pubkey, nowMs);
    if (claim !== 'free' && claim !== 'reclaimable') {
      return false;
    }
    if (currentUsername !== undefined) {
      await this.#startGracePeriod(currentUsername.name, nowMs, graceMs);
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
   * Gives a key the name that its purchase holds, and starts the grace period of the name that the key used before.
   * If the key has meanwhile got a name that it requested later, it keeps that name, and the grace period of the
   * purchased name starts instead. Must be called in a transaction.
   *
   * @returns false if the purchase does not hold the name
   */
  async assignHeld(
    name: string,
    options: { pubkey: string; purchaseId: string; nowMs: number; graceMs: number },
  ): Promise<boolean> {
    const { pubkey, purchaseId, nowMs, graceMs } = options;
    const currentUsername = await this.#lockKeyAndReadName(pubkey);
    const heldUsername = await this.db
      .selectFrom('usernames')
      .select('request_seq')
      .where('name', '=', name)
      .where('purchase', '=', purchaseId)
      .modifyEnd(lockRows(this.db, 'for update'))
      .executeTakeFirst();
    if (heldUsername === undefined) {
      return false;
    }
    if (currentUsername !== undefined && currentUsername.request_seq > heldUsername.request_seq) {
      await this.#startGracePeriod(name, nowMs, graceMs);
      return true;
    }
    if (currentUsername !== undefined) {
      await this.#startGracePeriod(currentUsername.name, nowMs, graceMs);
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
   * Takes a name away from its owner, without a grace period. The name is free, and its row shows the former owner. Must
   * be called in a transaction.
   *
   * @returns false if the name is not in use
   */
  async revoke(name: string, nowMs: number): Promise<boolean> {
    const updated = await this.db
      .updateTable('users')
      .set({ name: null })
      .where('name', '=', name)
      .executeTakeFirst();
    if (updated.numUpdatedRows === 0n) {
      return false;
    }
    await this.db
      .updateTable('usernames')
      .set({ status: 'released', since: nowMs, until: nowMs })
      .where('name', '=', name)
      .where('status', '=', 'in_use')
      .execute();
    return true;
  }

  /** Reads the name that a key uses. Locks the key until the transaction ends, so that its changes are serialised. */
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
        'until as graceEndsAtMs',
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
  // Numbers the names in the order in which the key requested them. The clocks of several processes could disagree.
  const nextRequestSeq = sql<number>`(
    select coalesce(max(request_seq), 0) + 1 from usernames where pubkey = ${pubkey}
  )`;
  const request_seq = pubkey === null ? 0 : nextRequestSeq;
  return { pubkey, status, since, until: null, purchase, request_seq };
}
