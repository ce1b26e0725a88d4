import { sql } from 'kysely';
import { migrations } from '../../migrations/index.ts';
import type { Db } from './transaction.ts';

/** Kysely's own table, which the first migration creates. */
const MIGRATION_TABLE = 'kysely_migration';

/** Returns whether all migrations of this version were applied. Throws if the database has no tables yet. */
export async function areMigrationsApplied(db: Db): Promise<boolean> {
  const applied = await readAppliedMigrations(db);
  return Object.keys(migrations).every((name) => applied.includes(name));
}

/** Returns this version's migrations that are missing in the database, and the applied ones that it does not know. */
export async function compareMigrations(db: Db): Promise<{ missing: string[]; unknown: string[] }> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true });
  const hasTable = tables.some(({ name }) => name === MIGRATION_TABLE);
  const applied = hasTable ? await readAppliedMigrations(db) : [];
  const known = Object.keys(migrations);
  return {
    missing: known.filter((name) => !applied.includes(name)),
    unknown: applied.filter((name) => !known.includes(name)),
  };
}

async function readAppliedMigrations(db: Db): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select name from ${sql.table(MIGRATION_TABLE)} order by name
  `.execute(db);
  return rows.map(({ name }) => name);
}
