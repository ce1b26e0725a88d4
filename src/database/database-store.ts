import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

/** A part of {@link Store}, on the database or in a transaction. */
export abstract class DatabaseStore {
  protected readonly db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.db = db;
  }
}
