import { DatabaseSync } from 'node:sqlite';
import { sql } from 'kysely';
import type { Db } from '../../database/transaction.ts';

/**
 * Copies an SQLite database to a new file while other processes write. SQLite's online backup would start again whenever
 * one has written, so on a busy service it would never finish.
 */
export async function copySqlite(db: Db, file: string): Promise<void> {
  await sql`vacuum into ${file}`.execute(db);
}

/** Returns the number of rows of each table, and the newest paid quote. @throws Error if the file is damaged */
export function readSqliteContent(file: string) {
  using database = new DatabaseSync(file, { readOnly: true });
  const read = (query: string) => database.prepare(query).get();
  const check = read('pragma integrity_check')?.['integrity_check'];
  if (check !== 'ok') {
    throw new Error(`SQLite reports ${String(check)}`);
  }
  const tables = database.prepare(
    `select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`,
  );
  const counts = tables.all().map(({ name }) => {
    return [String(name), Number(read(`select count(*) as count from "${name}"`)?.['count'])];
  });
  const rows: Record<string, number> = Object.fromEntries(counts);
  return { rows, newestQuote: read('select max(paid_at) as paid_at, amount_sat from quotes') };
}

/** Lists the tables that a restore would meet. */
export async function listTables(db: Db): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables
    where table_schema = current_schema() and table_type = 'BASE TABLE' order by name
  `.execute(db);
  return rows.map(({ name }) => name);
}
