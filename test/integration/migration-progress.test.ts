import { expect, it, onTestFinished } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import { openDatabase } from '../../src/store/database.ts';
import { createBareDatabase, createTestDatabase, type TestDatabase } from '../helpers/database.ts';

/** What an operator hears while tables are brought up to date, on either database. */

it('each step is told, with how many there are', async () => {
  const names = Object.keys(migrations);
  expect(await toldBy(await createBareDatabase())).toEqual(
    names.map(
      (name, index) => `Bringing the tables up to date: ${name} (${index + 1} of ${names.length})`,
    ),
  );
});

it('nothing is told where nothing is to be done', async () => {
  expect(await toldBy(await createTestDatabase())).toEqual([]);
});

async function toldBy(testDatabase: TestDatabase): Promise<string[]> {
  onTestFinished(() => testDatabase.drop());
  const told: string[] = [];
  const onProgress = (line: string) => void told.push(line);
  const database = await openDatabase(testDatabase.location, () => undefined, onProgress);
  await database.close();
  return told;
}
