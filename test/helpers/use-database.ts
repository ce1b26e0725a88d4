import { afterAll, beforeAll } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { createTestDatabase } from './database.ts';

/**
 * Opens a database of its own for the tests of a file, and removes it when they are done.
 *
 * @param take given the database before the first test
 */
export function useDatabase(take: (database: Database) => void): void {
  const end = new AsyncDisposableStack();
  beforeAll(async () => {
    const open = await databaseOn(end);
    take(await open());
  });
  afterAll(() => end.disposeAsync());
}

/**
 * Makes a database that is closed and removed with the stack.
 *
 * @returns opens it, each time as another process has it
 */
export async function databaseOn(end: AsyncDisposableStack): Promise<() => Promise<Database>> {
  const testDatabase = await createTestDatabase();
  end.defer(() => testDatabase.drop());
  return async () => {
    const database = await testDatabase.open();
    end.defer(() => database.close());
    return database;
  };
}
