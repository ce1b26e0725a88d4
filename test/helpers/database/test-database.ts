import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, inject, onTestFinished } from 'vitest';
import {
  type Database,
  type DatabaseLocation,
  openDatabase,
  type PostgresLocation,
} from '../../../src/database/database.ts';
import { trackDatabaseListeners } from './database-notifications.ts';
import { createTemporaryPostgresDatabase } from './temporary-postgres-database.ts';

/** A separate database for a test or a test file, on the server of `TEST_DATABASE_URL` or in a SQLite file. */
export interface TestDatabase {
  location: DatabaseLocation;
  /** Opens the database as a new process would. A SQLite database can be opened only once at a time. */
  open(): Promise<Database>;
  drop(): Promise<void>;
}

export const isPostgres = process.env['TEST_DATABASE_URL'] !== undefined;

export async function createTestDatabase(): Promise<TestDatabase> {
  return isPostgres ? createPostgresDatabase(inject('postgresTemplate')) : createSqliteDatabase();
}

export async function createUnmigratedDatabase(): Promise<TestDatabase> {
  return isPostgres ? createPostgresDatabase('template0') : createSqliteDatabase();
}

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

export function requirePostgresUrl({ location }: TestDatabase): string {
  if (location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  return location.url;
}

export function toDatabaseEnv(location: DatabaseLocation): Record<string, string> {
  return location.kind === 'sqlite'
    ? { DATA_DIR: location.dataDir }
    : {
        DATABASE_URL: location.url,
        ...(location.listenUrl !== undefined && { DATABASE_LISTEN_URL: location.listenUrl }),
      };
}

export async function createDataDir(): Promise<{ dataDir: string; remove: () => Promise<void> }> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-test-'));
  return { dataDir, remove: () => rm(dataDir, { recursive: true, force: true }) };
}

async function createSqliteDatabase(): Promise<TestDatabase> {
  const { dataDir, remove } = await createDataDir();
  return buildTestDatabase({ kind: 'sqlite', dataDir }, remove);
}

async function createPostgresDatabase(template: string): Promise<TestDatabase> {
  const serverUrl = process.env['TEST_DATABASE_URL'] ?? '';
  const { url, drop } = await createTemporaryPostgresDatabase(serverUrl, template);
  return buildTestDatabase(locatePostgresDatabase(url), drop);
}

/** @param url leads to the server itself; the location leads through the pooler if the suite has one */
function locatePostgresDatabase(url: string): PostgresLocation {
  const poolerUrl = process.env['TEST_POOLER_URL'];
  if (poolerUrl === undefined) {
    return { kind: 'postgres', url };
  }
  const { pathname } = new URL(url);
  return { kind: 'postgres', url: new URL(pathname, poolerUrl).href, listenUrl: url };
}

function buildTestDatabase(location: DatabaseLocation, drop: () => Promise<void>): TestDatabase {
  const open = async () => trackDatabaseListeners(await openDatabase(location, () => undefined));
  return { location, open, drop };
}

export function useTestDatabase(): Database {
  const database: Partial<Database> = {};
  beforeAll(async () => {
    const testDatabase = await createTestDatabase();
    Object.assign(database, await testDatabase.open());
    return async () => {
      await database.close?.();
      await testDatabase.drop();
    };
  });
  return database as Database;
}
