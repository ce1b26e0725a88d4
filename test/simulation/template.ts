import path from 'node:path';
import { Kysely, sql } from 'kysely';
import { Migrator } from 'kysely/migration';
import { migrations } from '../../migrations/index.ts';
import { SqliteConnection } from '../../src/database/sqlite-connection.ts';
import { createSqliteDialect, SqliteDriver } from '../../src/database/sqlite-dialect.ts';

/** Creates a migrated database, whose file each run copies. */
export async function createTemplate(folder: string): Promise<string> {
  const file = path.join(folder, 'template.db');
  const connection = new SqliteConnection({ file, mode: 'switch to WAL', busyTimeoutMs: 0 });
  const writer = {
    isStuck: false,
    run: async (text: string, parameters: readonly unknown[]) => connection.run(text, parameters),
    rollback: async () => connection.rollback(),
    close: async () => connection.close(),
  };
  const driver = new SqliteDriver({
    writer: writer as never,
    openReader: () => new SqliteConnection({ file, mode: 'read', busyTimeoutMs: 0 }),
    onNotification: () => undefined,
    onFailure: () => undefined,
  });
  const db = new Kysely<unknown>({ dialect: createSqliteDialect(driver) });
  const { error } = await new Migrator({
    db,
    provider: { getMigrations: async () => migrations },
  }).migrateToLatest();
  if (error !== undefined) {
    throw error;
  }
  await sql`pragma wal_checkpoint(truncate)`.execute(db);
  await db.destroy();
  await driver.destroy();
  return file;
}
