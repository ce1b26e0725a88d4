import { sql } from 'kysely';
import { expect, it, onTestFinished } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import { type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { createDatabaseWithAlice } from '../helpers/database/database-with-alice.ts';
import { createDataDir, createUnmigratedDatabase } from '../helpers/database/test-database.ts';

it('reports each migration that it applies', async () => {
  const names = Object.keys(migrations);
  const unmigrated = await createUnmigratedDatabase();
  onTestFinished(() => unmigrated.drop());
  expect(await openAndRecordProgress(unmigrated.location)).toEqual(
    names.map((name) => `applying migration ${name}`),
  );
});

it('reports nothing if all migrations were applied before', async () => {
  const { location, remove } = await createDatabaseWithAlice();
  onTestFinished(remove);
  expect(await openAndRecordProgress(location)).toEqual([]);
});

it('opens a database that a newer version migrated, so that operators can go back', async () => {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  const open = () => openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
  const { db, close } = await open();
  const timestamp = new Date().toISOString();
  await sql`insert into kysely_migration (name, timestamp) values ('9999_future', ${timestamp})`.execute(
    db,
  );
  await close();
  await (await open()).close();
});

async function openAndRecordProgress(location: DatabaseLocation): Promise<string[]> {
  const lines: string[] = [];
  const onProgress = (line: string) => void lines.push(line);
  const database = await openDatabase(location, () => undefined, onProgress);
  await database.close();
  return lines;
}
