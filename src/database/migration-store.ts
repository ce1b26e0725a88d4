import { sql } from 'kysely';
import { migrations } from '../../migrations/index.ts';
import { acceptsWrites } from './sql.ts';
import type { Db } from './transaction.ts';

/** Kysely's own table, which the first migration creates. */
const MIGRATION_TABLE = 'kysely_migration';

/**
 * Returns whether all migrations of this version were applied, and whether the server accepts writes. The first
 * migration must have been applied.
 */
export async function readMigrationStatus(
  db: Db,
): Promise<{ isUpToDate: boolean; isWritable: boolean }> {
  const { rows } = await sql<{ name: string; isWritable: boolean | 0 | 1 }>`
    select name, ${acceptsWrites(db)} as "isWritable" from ${sql.table(MIGRATION_TABLE)}
  `.execute(db);
  return {
    isUpToDate: diffMigrations(rows.map(({ name }) => name)).missing.length === 0,
    isWritable: rows.every(({ isWritable }) => Boolean(isWritable)),
  };
}

/**
 * Also works if no migration was applied.
 *
 * @returns `missing`: migrations of this version that were not applied; `unknown`: other applied migrations
 */
export async function compareMigrations(db: Db): Promise<{ missing: string[]; unknown: string[] }> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true });
  if (!tables.some(({ name }) => name === MIGRATION_TABLE)) {
    return diffMigrations([]);
  }
  const { rows } = await sql<{ name: string }>`
    select name from ${sql.table(MIGRATION_TABLE)} order by name
  `.execute(db);
  return diffMigrations(rows.map(({ name }) => name));
}

function diffMigrations(applied: readonly string[]): { missing: string[]; unknown: string[] } {
  const known = Object.keys(migrations);
  return {
    missing: known.filter((name) => !applied.includes(name)),
    unknown: applied.filter((name) => !known.includes(name)),
  };
}
