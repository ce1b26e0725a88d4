import { sql } from 'kysely';
import { expect, it, onTestFinished } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import { openDatabase } from '../../src/database/database.ts';
import {
  createBareDatabase,
  createDataDir,
  createTestDatabase,
  type TestDatabase,
} from '../helpers/database.ts';

it('reports each migration', async () => {
  const names = Object.keys(migrations);
  expect(await progressOf(await createBareDatabase())).toEqual(
    names.map((name) => `Applying migration ${name}`),
  );
});

it('reports nothing if there is no migration to run', async () => {
  expect(await progressOf(await createTestDatabase())).toEqual([]);
});

it('refuses a database of a newer version', async () => {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  const open = () => openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
  const { db, close } = await open();
  await sql`insert into kysely_migration (name, timestamp) values ('9999_future', 'now')`.execute(
    db,
  );
  await close();
  await expect(open()).rejects.toThrow(
    /^The database could not be brought up to date: corrupted migrations: .*9999_future/,
  );
});

/** What opening the database reports. */
async function progressOf(testDatabase: TestDatabase): Promise<string[]> {
  onTestFinished(() => testDatabase.drop());
  const lines: string[] = [];
  const onProgress = (line: string) => void lines.push(line);
  const database = await openDatabase(testDatabase.location, () => undefined, onProgress);
  await database.close();
  return lines;
}
