import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, inject } from 'vitest';
import { type Database, type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { withEars } from './heard.ts';
import { createDatabaseOn } from './server-database.ts';

/** A database of its own for one test or file, on the server of `TEST_DATABASE_URL` or in memory. */
export interface TestDatabase {
  location: DatabaseLocation;
  /** Opens it, like one more process would; only a server can be opened more than once. */
  open(): Promise<Database>;
  /** Removes it, once all that was opened is closed. */
  drop(): Promise<void>;
}

/** Whether the tests run on a PostgreSQL server, where several processes can share a database. */
export const hasServer = process.env['TEST_DATABASE_URL'] !== undefined;

/** Creates a database with all tables, which are empty. */
export async function createTestDatabase(): Promise<TestDatabase> {
  return hasServer ? createOnServer(inject('serverTemplate')) : inMemory();
}

/** Creates a database without tables, as an operator gives it to the first start. */
export async function createBareDatabase(): Promise<TestDatabase> {
  return hasServer ? createOnServer('template0') : inMemory();
}

/** Creates an empty directory; the first start makes a `DATA_DIR` of it. */
export async function createDataDir(): Promise<{ dataDir: string; remove: () => Promise<void> }> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-test-'));
  return { dataDir, remove: () => rm(dataDir, { recursive: true, force: true }) };
}

function inMemory(): TestDatabase {
  return testDatabase({ kind: 'memory' }, async () => undefined);
}

async function createOnServer(template: string): Promise<TestDatabase> {
  const server = process.env['TEST_DATABASE_URL'] ?? '';
  const { url, drop } = await createDatabaseOn(server, template);
  return testDatabase({ kind: 'postgres', url }, drop);
}

function testDatabase(location: DatabaseLocation, drop: () => Promise<void>): TestDatabase {
  const open = async () => withEars(await openDatabase(location, () => undefined));
  return { location, open, drop };
}

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
