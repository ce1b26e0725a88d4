import { type InsertObject, sql } from 'kysely';
import type { DatabaseSchema } from '../database/schema.ts';
import { columnInValues, jsonRows, lockRows, toFlag } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';

export interface RecipientBlock {
  sinceMs: number;
  reason: string | null;
}

interface Membership {
  sinceMs: number;
  note: string | null;
}

/** A row of `users`. If a setting is null, the operator's default applies. */
export interface StoredUser {
  pubkey: string;
  name: string | null;
  mintUrl: string | null;
  lockQuotes: boolean | null;
  block: RecipientBlock | null;
  /** The last block, if the operator has lifted it. */
  formerBlock: (RecipientBlock & { untilMs: number }) | null;
  member: Membership | null;
  /** The number of payments received. */
  paymentCount: number;
  lastPaidAtMs: number | null;
}

/** Numbers and dates a recipient's payments. The current transaction has locked its row. */
export interface PaymentCounter {
  pubkey: string;
  /** The number of payments so far, which is the number of the newest one. */
  paidCount: number;
  lastPaidAtMs: number | null;
  /** New payments are dated at or after this time. */
  listedUntilMs: number;
}

/** Returns null if nothing was ever stored for this key. */
export function findUserByPubkey(db: Db, pubkey: string): Promise<StoredUser | null> {
  return findUser(db, 'pubkey', pubkey);
}

export function findUserByName(db: Db, name: string): Promise<StoredUser | null> {
  return findUser(db, 'name', name);
}

/** Blocks a key and returns the block. If the key is already blocked, a reason that is not null replaces the old one. */
export async function blockUser(
  tx: Tx,
  pubkey: string,
  reason: string | null,
  nowMs: number,
): Promise<RecipientBlock> {
  const { block } = (await findUserByPubkey(tx, pubkey)) ?? {};
  const sinceMs = block?.sinceMs ?? nowMs;
  const storedReason = reason ?? block?.reason ?? null;
  const columns = { blocked_at: sinceMs, block_reason: storedReason, unblocked_at: null };
  await updateOrAddUser(tx, { pubkey, ...columns });
  return { sinceMs, reason: storedReason };
}

export async function unblockUser(tx: Tx, pubkey: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('users')
    .set({ unblocked_at: nowMs })
    .where('pubkey', '=', pubkey)
    .where('blocked_at', 'is not', null)
    .where('unblocked_at', 'is', null)
    .execute();
}

export async function saveUserSettings(
  tx: Tx,
  pubkey: string,
  { mintUrl, lockQuotes }: { mintUrl?: string; lockQuotes?: boolean },
): Promise<void> {
  await updateOrAddUser(tx, {
    pubkey,
    ...(mintUrl !== undefined && { mint_url: mintUrl }),
    ...(lockQuotes !== undefined && { lock_quotes: toFlag(lockQuotes) }),
  });
}

/** Sets columns of a user, and locks the row, which is added if there is none. */
export async function updateOrAddUser(tx: Tx, row: InsertObject<DatabaseSchema, 'users'>) {
  await tx
    .insertInto('users')
    .values(row)
    .onConflict((conflict) => conflict.column('pubkey').doUpdateSet(row))
    .execute();
}

/**
 * Locks the payment counters of these recipients until the transaction ends, and creates missing ones. Does both in a
 * fixed order, so that concurrent transactions never deadlock.
 */
export async function lockPaymentCounters(tx: Tx, pubkeys: readonly string[]) {
  if (pubkeys.length === 0) {
    return [];
  }
  const distinctPubkeys = [...new Set(pubkeys)];
  const wantedRows = distinctPubkeys.map((pubkey) => ({ pubkey }));
  await sql`
    insert into users (pubkey)
    select pubkey from ${jsonRows(tx, { text: ['pubkey'] }, wantedRows)} as wanted
    where true -- SQLite needs it before "on conflict"
    order by pubkey
    on conflict (pubkey) do nothing
  `.execute(tx);
  const { rows } = await sql<PaymentCounter>`
    select pubkey, paid_count as "paidCount", last_paid_at as "lastPaidAtMs",
      listed_until as "listedUntilMs"
    from users
    where ${columnInValues(tx, 'pubkey', 'text', distinctPubkeys)}
    order by pubkey
    ${lockRows(tx, 'for no key update')}
  `.execute(tx);
  return rows;
}

/** Locks those of these users that are stored, in the order of {@link lockPaymentCounters}. */
export async function lockUsers(tx: Tx, pubkeys: readonly string[]): Promise<void> {
  await sql`
    select 1 from users where ${columnInValues(tx, 'pubkey', 'text', pubkeys)} order by pubkey
    ${lockRows(tx, 'for no key update')}
  `.execute(tx);
}

export async function savePaymentCounters(
  tx: Tx,
  counters: readonly Omit<PaymentCounter, 'listedUntilMs'>[],
): Promise<void> {
  if (counters.length === 0) {
    return;
  }
  const columns = { text: ['pubkey'], bigint: ['paidCount', 'lastPaidAtMs'] } as const;
  const pubkeys = counters.map(({ pubkey }) => pubkey);
  // Materialized, so that SQLite parses the JSON only once. The last condition lets PostgreSQL use the index.
  await sql`
    with changed as materialized (select * from ${jsonRows(tx, columns, counters)} as given)
    update users set paid_count = changed."paidCount", last_paid_at = changed."lastPaidAtMs"
    from changed
    where users.pubkey = changed.pubkey and ${columnInValues(tx, 'users.pubkey', 'text', pubkeys)}
  `.execute(tx);
}

async function findUser(db: Db, column: 'pubkey' | 'name', value: string) {
  const row = await db
    .selectFrom('users')
    .select([
      'pubkey',
      'name',
      'mint_url as mintUrl',
      'lock_quotes',
      'blocked_at as sinceMs',
      'block_reason as reason',
      'unblocked_at as untilMs',
      'member_since',
      'member_note',
      'paid_count as paymentCount',
      'last_paid_at as lastPaidAtMs',
    ])
    .where(column, '=', value)
    .executeTakeFirst();
  if (row === undefined) {
    return null;
  }
  const { lock_quotes, sinceMs, untilMs, reason, member_since, member_note, ...user } = row;
  return {
    ...user,
    lockQuotes: lock_quotes === null ? null : lock_quotes === 1,
    block: sinceMs === null || untilMs !== null ? null : { sinceMs, reason },
    member: member_since === null ? null : { sinceMs: member_since, note: member_note },
    formerBlock: sinceMs === null || untilMs === null ? null : { sinceMs, untilMs, reason },
  };
}
