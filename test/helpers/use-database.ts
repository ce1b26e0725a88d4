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
    const testDatabase = await createTestDatabase();
    end.defer(() => testDatabase.drop());
    const database = await testDatabase.open();
    end.defer(() => database.close());
    take(database);
  });
  afterAll(() => end.disposeAsync());
}
