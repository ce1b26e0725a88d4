import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest';
import { type Database, type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { withEars } from './heard.ts';
import { createDatabaseOn } from './server-database.ts';

/** A database of its own for one test or file, on the server of `TEST_DATABASE_URL` or in a SQLite file. */
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
  return hasServer ? createOnServer(inject('serverTemplate')) : inFile();
}

/** Creates a database without tables, as an operator gives it to the first start. */
export async function createBareDatabase(): Promise<TestDatabase> {
  return hasServer ? createOnServer('template0') : inFile();
}

/** Creates and opens a database that ends with the test. */
export async function openTestDatabase(): Promise<{
  testDatabase: TestDatabase;
  database: Database;
}> {
  const testDatabase = await createTestDatabase();
  onTestFinished(() => testDatabase.drop());
  const database = await testDatabase.open();
  onTestFinished(() => database.close());
  return { testDatabase, database };
}

/** @throws if the tests run without a server */
export function serverUrl({ location }: TestDatabase): string {
  if (location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  return location.url;
}

/** Creates an empty directory; the first start makes a `DATA_DIR` of it. */
export async function createDataDir(): Promise<{ dataDir: string; remove: () => Promise<void> }> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-test-'));
  return { dataDir, remove: () => rm(dataDir, { recursive: true, force: true }) };
}

async function inFile(): Promise<TestDatabase> {
  const { dataDir, remove } = await createDataDir();
  return testDatabase({ kind: 'sqlite', dataDir }, remove);
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

/** Opens a database of its own for the tests of a file, and removes it when they are done. */
export function useDatabase(): Database {
  const database: Partial<Database> = {};
  const end = new AsyncDisposableStack();
  beforeAll(async () => {
    const open = await databaseOn(end);
    Object.assign(database, await open());
  });
  afterAll(() => end.disposeAsync());
  return database as Database;
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
