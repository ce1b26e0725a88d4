import { sql } from 'kysely';
import type { DatabaseSchema } from '../database/schema.ts';
import { lockRows } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';
import { updateOrAddUser } from '../recipients/user-store.ts';

// `usernames` has a row for every name that is not free. A name in use is also in `users.name`: a foreign key connects
// the two columns, and each change writes both in one transaction.

/** `pubkey` is the owner, the buyer or the previous owner; null if the operator reserved the name. */
export type StoredUsername = Awaited<ReturnType<typeof listUsernamesOfKey>>[number];

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
  return (stored.graceEndsAtMs ?? 0) > nowMs ? 'in_grace' : 'free';
}

export type ClaimDecision = ReturnType<typeof decideClaim>;

/**
 * Decides whether a key can have a name. `reclaimable`: the key released it, and gets it back free of charge until its
 * grace period ends. `buying`: a purchase of the name by the key is in progress.
 */
export function decideClaim(stored: StoredUsername | null, pubkey: string | null, nowMs: number) {
  const availability = resolveAvailability(stored, nowMs);
  if (availability === 'free' || availability === 'reserved') {
    return availability;
  }
  if (stored?.pubkey !== pubkey) {
    return 'taken';
  }
  return ({ in_use: 'owned', pending: 'buying', in_grace: 'reclaimable' } as const)[availability];
}

export async function findUsername(db: Db, name: string): Promise<StoredUsername | null> {
  return (await selectUsernames(db).where('name', '=', name).executeTakeFirst()) ?? null;
}

/** Lists the names that a key uses, is buying or can reclaim. */
export async function listUsernamesOfKey(db: Db, pubkey: string) {
  return await selectUsernames(db).where('pubkey', '=', pubkey).orderBy('name').execute();
}

/** Holds a free name for a purchase. Returns false if the name is not free. */
export function holdUsername(
  db: Db,
  name: string,
  { pubkey, purchaseId, nowMs }: { pubkey: string; purchaseId: string; nowMs: number },
): Promise<boolean> {
  return insertOrReplaceExpired(
    db,
    name,
    createRow({ pubkey, status: 'pending', since: nowMs, purchase: purchaseId }),
  );
}

export async function releaseHeldUsername(db: Db, name: string, purchaseId: string): Promise<void> {
  await db
    .deleteFrom('usernames')
    .where('name', '=', name)
    .where('purchase', '=', purchaseId)
    .execute();
}

/** Gives a key a free or reclaimable name. If this returns false, the caller must roll the transaction back. */
export async function claimUsername(
  tx: Tx,
  name: string,
  { pubkey, nowMs, graceMs }: { pubkey: string; nowMs: number; graceMs: number },
): Promise<boolean> {
  const current = await lockKeyAndReadName(tx, pubkey);
  if (current?.name === name) {
    return true;
  }
  // Locks the requested name before the current one, because two keys may request each other's names.
  const stored = await selectUsernames(tx)
    .where('name', '=', name)
    .modifyEnd(lockRows(tx, 'for update'))
    .executeTakeFirst();
  const claim = decideClaim(stored ?? null, pubkey, nowMs);
  if (claim !== 'free' && claim !== 'reclaimable') {
    return false;
  }
  if (current !== undefined) {
    await startGracePeriod(tx, current.name, nowMs, graceMs);
  }
  const row = createRow({ pubkey, status: 'in_use', since: nowMs, purchase: null });
  if (stored !== undefined) {
    await tx.updateTable('usernames').set(row).where('name', '=', name).execute();
  } else if (!(await insertIfAbsent(tx, name, row))) {
    return false;
  }
  await setUserName(tx, name, pubkey);
  return true;
}

/** Gives a key the name that its purchase holds. Returns false if the purchase does not hold the name. */
export async function assignHeldUsername(
  tx: Tx,
  name: string,
  options: { pubkey: string; purchaseId: string; nowMs: number; graceMs: number },
): Promise<boolean> {
  const { pubkey, purchaseId, nowMs, graceMs } = options;
  const current = await lockKeyAndReadName(tx, pubkey);
  const held = await tx
    .selectFrom('usernames')
    .select('request_seq')
    .where('name', '=', name)
    .where('purchase', '=', purchaseId)
    .modifyEnd(lockRows(tx, 'for update'))
    .executeTakeFirst();
  if (held === undefined) {
    return false;
  }
  // If the key has requested its current name later, it keeps that name.
  if (current !== undefined && current.request_seq > held.request_seq) {
    await startGracePeriod(tx, name, nowMs, graceMs);
    return true;
  }
  if (current !== undefined) {
    await startGracePeriod(tx, current.name, nowMs, graceMs);
  }
  await tx
    .updateTable('usernames')
    .set({ status: 'in_use', purchase: null })
    .where('name', '=', name)
    .execute();
  await setUserName(tx, name, pubkey);
  return true;
}

/** Reserves a name for the operator. Returns false if the name is not free. */
export function reserveUsername(db: Db, name: string, nowMs: number): Promise<boolean> {
  const row = createRow({ pubkey: null, status: 'reserved', since: nowMs, purchase: null });
  return insertOrReplaceExpired(db, name, row);
}

/** Frees a reserved or released name. Returns false if the name has another status. */
export async function freeUsername(db: Db, name: string): Promise<boolean> {
  const deleted = await db
    .deleteFrom('usernames')
    .where('name', '=', name)
    .where('status', 'in', ['reserved', 'released'])
    .executeTakeFirst();
  return deleted.numDeletedRows === 1n;
}

/** Takes a name away from its owner, without a grace period. Returns false if the name is not in use. */
export async function revokeUsername(tx: Tx, name: string, nowMs: number): Promise<boolean> {
  const updated = await tx
    .updateTable('users')
    .set({ name: null })
    .where('name', '=', name)
    .executeTakeFirst();
  if (updated.numUpdatedRows === 0n) {
    return false;
  }
  await tx
    .updateTable('usernames')
    .set({ status: 'released', since: nowMs, until: nowMs })
    .where('name', '=', name)
    .where('status', '=', 'in_use')
    .execute();
  return true;
}

/** Reads the name that a key uses. Locks the key until the transaction ends, so that its changes are serialised. */
async function lockKeyAndReadName(tx: Tx, pubkey: string) {
  // An update adds the row again if an operator deletes it meanwhile.
  await updateOrAddUser(tx, { pubkey });
  return await tx
    .selectFrom('usernames')
    .select(['name', 'request_seq'])
    .where('pubkey', '=', pubkey)
    .where('status', '=', 'in_use')
    .executeTakeFirst();
}

async function insertOrReplaceExpired(db: Db, name: string, row: UsernameRow): Promise<boolean> {
  const replaced = await db
    .updateTable('usernames')
    .set(row)
    .where('name', '=', name)
    .where('status', '=', 'released')
    .where('until', '<=', row.since)
    .executeTakeFirst();
  return replaced.numUpdatedRows === 1n || (await insertIfAbsent(db, name, row));
}

async function insertIfAbsent(db: Db, name: string, row: UsernameRow): Promise<boolean> {
  // The conflict clause names no column, because any of the table's unique indexes may conflict first.
  const inserted = await db
    .insertInto('usernames')
    .values({ name, ...row })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  return inserted.numInsertedOrUpdatedRows === 1n;
}

async function startGracePeriod(tx: Tx, name: string, nowMs: number, graceMs: number) {
  await tx
    .updateTable('usernames')
    .set({ status: 'released', since: nowMs, until: nowMs + graceMs, purchase: null })
    .where('name', '=', name)
    .execute();
}

async function setUserName(tx: Tx, name: string, pubkey: string): Promise<void> {
  await tx.updateTable('users').set({ name }).where('pubkey', '=', pubkey).execute();
}

function selectUsernames(db: Db) {
  return db
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

type UsernameRow = ReturnType<typeof createRow>;

function createRow(
  row: Pick<DatabaseSchema['usernames'], 'pubkey' | 'status' | 'since' | 'purchase'>,
) {
  // Numbers the names in the order in which the key requested them. The clocks of several processes could disagree.
  const nextRequestSeq = sql<number>`(
    select coalesce(max(request_seq), 0) + 1 from usernames where pubkey = ${row.pubkey}
  )`;
  return { ...row, until: null, request_seq: row.pubkey === null ? 0 : nextRequestSeq };
}
