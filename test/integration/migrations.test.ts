import { sql } from 'kysely';
import { expect, it, onTestFinished } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import { type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { createDataDir, createUnmigratedDatabase } from '../helpers/database.ts';
import { createPreparedDatabase } from '../helpers/prepared-database.ts';

it('reports each migration', async () => {
  const names = Object.keys(migrations);
  const bare = await createUnmigratedDatabase();
  onTestFinished(() => bare.drop());
  expect(await progressOf(bare.location)).toEqual(
    names.map((name) => `Applying migration ${name}`),
  );
});

it('reports nothing if there is no migration to run', async () => {
  const { location, remove } = await createPreparedDatabase();
  onTestFinished(remove);
  expect(await progressOf(location)).toEqual([]);
});

it('rejects a database of a newer version', async () => {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  const open = () => openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
  const { db, close } = await open();
  await sql`insert into kysely_migration (name, timestamp) values ('9999_future', 'now')`.execute(
    db,
  );
  await close();
  await expect(open()).rejects.toThrow(
    /^The database migration failed: corrupted migrations: .*9999_future/,
  );
});

/** Opens the database and returns what it reports. */
async function progressOf(location: DatabaseLocation): Promise<string[]> {
  const lines: string[] = [];
  const onProgress = (line: string) => void lines.push(line);
  const database = await openDatabase(location, () => undefined, onProgress);
  await database.close();
  return lines;
}
