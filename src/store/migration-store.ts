import { type Kysely, sql } from 'kysely';
import { migrations } from '../../migrations/index.ts';
import type { Schema } from './schema.ts';

/** Which of the changes to the tables that this version needs the database has. */
export class MigrationStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** Whether none is missing. What a newer version has added besides does no harm. */
  async areApplied(): Promise<boolean> {
    // The table is Kysely's own.
    const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(
      this.#db,
    );
    const applied = new Set(rows.map(({ name }) => name));
    return Object.keys(migrations).every((name) => applied.has(name));
  }
}
