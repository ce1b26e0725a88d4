import { type Kysely, sql } from 'kysely';
import { migrations } from '../../migrations/index.ts';
import type { Schema } from './schema.ts';

/** Kysely's own table, which the first migration creates. */
const TABLE = 'kysely_migration';

/** Which migrations of this version were applied to the database. */
export class MigrationStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** Returns whether none is missing. Migrations of a newer version do no harm. */
  async areApplied(): Promise<boolean> {
    const { missing } = compareWith(await this.#applied());
    return missing.length === 0;
  }

  /**
   * Compares the migrations of this version with those that were applied, also if none ever was.
   *
   * @returns `missing`: those of this version that were not applied; `unknown`: applied ones that this version
   *   does not know
   */
  async compare(): Promise<{ missing: string[]; unknown: string[] }> {
    const tables = await this.#db.introspection.getTables({ withInternalKyselyTables: true });
    return compareWith(tables.some(({ name }) => name === TABLE) ? await this.#applied() : []);
  }

  async #applied(): Promise<string[]> {
    const { rows } = await sql<{ name: string }>`
      select name from ${sql.table(TABLE)} order by name
    `.execute(this.#db);
    return rows.map(({ name }) => name);
  }
}

function compareWith(applied: readonly string[]): { missing: string[]; unknown: string[] } {
  const known = Object.keys(migrations);
  return {
    missing: known.filter((name) => !applied.includes(name)),
    unknown: applied.filter((name) => !known.includes(name)),
  };
}
