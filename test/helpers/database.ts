import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest';
import { type Database, type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { trackListeners } from './notification-barrier.ts';
import { createPostgresDatabaseFrom } from './postgres-database.ts';

/** A separate database for one test or file, on the server of `TEST_DATABASE_URL` or in a SQLite file. */
export interface TestDatabase {
  location: DatabaseLocation;
  /** Opens the database like another process; only PostgreSQL can be opened more than once. */
  open(): Promise<Database>;
  /** Removes the database after all connections are closed. */
  drop(): Promise<void>;
}

/** Whether the tests run on PostgreSQL, which several processes can share. */
export const isPostgres = process.env['TEST_DATABASE_URL'] !== undefined;

/** Creates a database with empty tables. */
export async function createTestDatabase(): Promise<TestDatabase> {
  return isPostgres ? createPostgresDatabase(inject('serverTemplate')) : createSqliteDatabase();
}

/** Creates a database without tables, as before the first start. */
export async function createUnmigratedDatabase(): Promise<TestDatabase> {
  return isPostgres ? createPostgresDatabase('template0') : createSqliteDatabase();
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
export function postgresUrl({ location }: TestDatabase): string {
  if (location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  return location.url;
}

/** Creates an empty directory for use as `DATA_DIR`. */
export async function createDataDir(): Promise<{ dataDir: string; remove: () => Promise<void> }> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-test-'));
  return { dataDir, remove: () => rm(dataDir, { recursive: true, force: true }) };
}

async function createSqliteDatabase(): Promise<TestDatabase> {
  const { dataDir, remove } = await createDataDir();
  return buildTestDatabase({ kind: 'sqlite', dataDir }, remove);
}

async function createPostgresDatabase(template: string): Promise<TestDatabase> {
  const server = process.env['TEST_DATABASE_URL'] ?? '';
  const { url, drop } = await createPostgresDatabaseFrom(server, template);
  return buildTestDatabase({ kind: 'postgres', url }, drop);
}

function buildTestDatabase(location: DatabaseLocation, drop: () => Promise<void>): TestDatabase {
  const open = async () => trackListeners(await openDatabase(location, () => undefined));
  return { location, open, drop };
}

/** Opens a separate database for the tests of a file, and removes it afterwards. */
export function useDatabase(): Database {
  const database: Partial<Database> = {};
  const cleanup = new AsyncDisposableStack();
  beforeAll(async () => {
    const open = await createDatabaseOpener(cleanup);
    Object.assign(database, await open());
  });
  afterAll(() => cleanup.disposeAsync());
  return database as Database;
}

/**
 * Creates a database that is closed and removed with the stack.
 *
 * @returns a function that opens the database as another process
 */
export async function createDatabaseOpener(
  cleanup: AsyncDisposableStack,
): Promise<() => Promise<Database>> {
  const testDatabase = await createTestDatabase();
  cleanup.defer(() => testDatabase.drop());
  return async () => {
    const database = await testDatabase.open();
    cleanup.defer(() => database.close());
    return database;
  };
}
