import { sql } from 'kysely';
import { migrations } from '../../migrations/index.ts';
import { acceptsWrites, BaseStore } from './sql.ts';

/** Kysely's own table, which the first migration creates. */
const MIGRATION_TABLE = 'kysely_migration';

/** Compares the migrations of this version with those that were applied to the database. */
export class MigrationStore extends BaseStore {
  /**
   * Returns whether all migrations of this version were applied, and whether the server accepts writes. The first
   * migration must have been applied.
   */
  async readStatus(): Promise<{ isUpToDate: boolean; isWritable: boolean }> {
    const { rows } = await sql<{ name: string; isWritable: boolean | 0 | 1 }>`
      select name, ${acceptsWrites(this.db)} as "isWritable" from ${sql.table(MIGRATION_TABLE)}
    `.execute(this.db);
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
  async compare(): Promise<{ missing: string[]; unknown: string[] }> {
    const tables = await this.db.introspection.getTables({ withInternalKyselyTables: true });
    return diffMigrations(
      tables.some(({ name }) => name === MIGRATION_TABLE) ? await this.#listApplied() : [],
    );
  }

  async #listApplied(): Promise<string[]> {
    const { rows } = await sql<{ name: string }>`
      select name from ${sql.table(MIGRATION_TABLE)} order by name
    `.execute(this.db);
    return rows.map(({ name }) => name);
  }
}

function diffMigrations(applied: readonly string[]): { missing: string[]; unknown: string[] } {
  const known = Object.keys(migrations);
  return {
    missing: known.filter((name) => !applied.includes(name)),
    unknown: applied.filter((name) => !known.includes(name)),
  };
}
