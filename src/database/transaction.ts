import { type Kysely, sql, type Transaction } from 'kysely';
import type { DatabaseSchema } from './schema.ts';
import { isSqlite, jsonRows } from './sql.ts';

export type Db = Kysely<DatabaseSchema>;

/** An open transaction, for queries that are only correct together with others. A `Db` is not assignable to it. */
export type Tx = Transaction<DatabaseSchema>;

export function transaction<Result>(db: Db, work: (tx: Tx) => Promise<Result>): Promise<Result> {
  return db.transaction().execute(work);
}

/** Runs a transaction, and rolls it back if `work` returns false. Returns whether it was committed. */
export async function tryTransaction(db: Db, work: (tx: Tx) => Promise<boolean>): Promise<boolean> {
  const rollback = new Error('rollback');
  try {
    await transaction(db, async (tx) => {
      if (!(await work(tx))) {
        throw rollback;
      }
    });
    return true;
  } catch (error) {
    if (error === rollback) {
      return false;
    }
    throw error;
  }
}

/**
 * Runs `work`, which may only read, for as long as it takes. All of its reads see the database as it is at the first one.
 * Blocks no writers.
 */
export function snapshot<Result>(db: Db, work: (tx: Tx) => Promise<Result>): Promise<Result> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (tx) => {
      await disableTimeouts(tx);
      return work(tx);
    });
}

/** Allows long statements, and long waits for input or output between them. */
export async function disableTimeouts(tx: Tx): Promise<void> {
  if (!isSqlite(tx)) {
    await sql`set local statement_timeout = 0`.execute(tx);
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(tx);
  }
}

/** Sends notifications to all listening processes when `tx` commits. Each payload must have less than 8,000 bytes. */
export async function notify(tx: Tx, channel: string, payloads: readonly string[]): Promise<void> {
  if (payloads.length === 0) {
    return;
  }
  const rows = payloads.map((payload) => ({ payload }));
  await sql`
    select pg_notify(${channel}, payload) from ${jsonRows(tx, { text: ['payload'] }, rows)} as sent
  `.execute(tx);
}
