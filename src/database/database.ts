import { statfs } from 'node:fs/promises';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import type pg from 'pg';
import { migrations } from '../../migrations/index.ts';
import { OperatorError, rootCauseMessage } from '../errors.ts';
import { waitAtMost } from '../wait-at-most.ts';
import { assertDatabaseExists, createDataDir, lockDataDir, sqliteFilePath } from './data-dir.ts';
import { throttleErrorReports } from './errors.ts';
import { SERVICE_BUSY_TIMEOUT_MS } from './limits.ts';
import { compareMigrations } from './migration-store.ts';
import { createSqliteNotifications, type Listen, listenOnPostgres } from './notifications.ts';
import {
  assertRequiredSettings,
  assertUtf8,
  assertWritable,
  type ConnectionPurpose,
  createMigrationPool,
  createPool,
  prepareConnection,
} from './postgres.ts';
import { PostgresPool } from './postgres-pool.ts';
import type { DatabaseSchema } from './schema.ts';
import { SqliteConnection, type SqliteConnectionOptions } from './sqlite-connection.ts';
import { createSqliteDialect, SqliteDriver } from './sqlite-dialect.ts';
import { SqliteWorker } from './sqlite-worker.ts';
import type { Db } from './transaction.ts';

export interface Database {
  db: Db;
  listen: Listen;
  /** Counts connections and waiting queries; null for SQLite. */
  poolStats(): { idle: number; busy: number; waiting: number; max: number } | null;
  /** Returns what the service can write to the disk of SQLite, and the size of the disk; null for PostgreSQL. */
  readDiskSpace(): Promise<{ freeBytes: number; totalBytes: number } | null>;
  /** False while the disk of SQLite fails or is locked, or while PostgreSQL is unreachable or read-only. */
  isWritable(): boolean;
  close(): Promise<void>;
}

export interface PostgresLocation {
  kind: 'postgres';
  url: string;
  /** For LISTEN and migrations, if `url` leads to a pooler that shares connections. The doctor passes `url` again. */
  listenUrl?: string | undefined;
}

export type DatabaseLocation = PostgresLocation | { kind: 'sqlite'; dataDir: string };

type OnProgress = (line: string) => void;

/** Called when a connection breaks or the disk of SQLite fails. The database keeps retrying. */
type OnError = (error: Error) => void;

/** Opens and migrates the service's database. @throws OperatorError if the server or the data directory is unusable */
export async function openDatabase(
  location: DatabaseLocation,
  onError: OnError,
  onProgress: OnProgress = () => undefined,
): Promise<Database> {
  if (location.kind === 'sqlite') {
    return openSqliteForService(location.dataDir, onError, onProgress);
  }
  const database = await openPostgres(location, onError, 'service');
  return prepareOrClose(database, () => migratePostgres(location, onError, onProgress));
}

/** Opens a database that a service may be using. @throws OperatorError if it is missing or migrations are pending */
export async function openExistingDatabase(location: DatabaseLocation): Promise<Database> {
  const database = await openForInspection(location, 'command');
  return prepareOrClose(database, assertMigrated);
}

/** Opens a database that may lack migrations. @throws OperatorError if it is missing or cannot be reached */
export async function openForInspection(
  location: DatabaseLocation,
  purpose: 'command' | 'doctor',
): Promise<Database> {
  // Queries that fail throw the same errors.
  const onError = () => undefined;
  if (location.kind === 'postgres') {
    return openPostgres(location, onError, purpose);
  }
  assertDatabaseExists(location.dataDir);
  const file = sqliteFilePath(location.dataDir);
  return openSqliteFile(file, onError, { mode: 'write', busyTimeoutMs: 30_000 });
}

async function openSqliteForService(
  dataDir: string,
  onError: OnError,
  onProgress: OnProgress,
): Promise<Database> {
  createDataDir(dataDir);
  const unlock = lockDataDir(dataDir);
  try {
    const database = await openSqliteFile(sqliteFilePath(dataDir), onError, {
      mode: 'switch to WAL',
      busyTimeoutMs: SERVICE_BUSY_TIMEOUT_MS,
    });
    const close = async () => {
      await database.close();
      unlock();
    };
    return await prepareOrClose({ ...database, close }, async (db) => {
      await migrate(db, onProgress);
      await clearStaleLeases(db);
    });
  } catch (error) {
    unlock();
    throw error;
  }
}

/** Deletes the leases of a killed process. No other process runs, because this one has locked the directory. */
async function clearStaleLeases(db: Db): Promise<void> {
  await sql`delete from watch_processes`.execute(db);
  await sql`update username_purchases set lease_holder = null, lease_expires_at = null
    where lease_holder is not null`.execute(db);
}

async function openSqliteFile(
  file: string,
  onError: OnError,
  writerOptions: Omit<SqliteConnectionOptions, 'file'>,
): Promise<Database> {
  const notifications = createSqliteNotifications(async () => {
    // Runs on the writer. Its version changes when another process has written.
    const { rows } = await sql<{ data_version: number }>`pragma data_version`.execute(db);
    return rows[0]?.data_version ?? 0;
  });
  let writer: SqliteWorker | null = null;
  let driver: SqliteDriver;
  try {
    writer = await SqliteWorker.open({ file, ...writerOptions });
    driver = new SqliteDriver({
      writer,
      // Short, because reads block the main thread. They wait only while a process repairs the file after a crash.
      openReader: () => new SqliteConnection({ file, mode: 'read', busyTimeoutMs: 50 }),
      onNotification: notifications.emit,
      onFailure: throttleErrorReports(onError),
    });
  } catch (error) {
    await writer?.close();
    throw new OperatorError(`DATA_DIR: ${file} cannot be used (${(error as Error).message}).`);
  }
  const db = new Kysely<DatabaseSchema>({ dialect: createSqliteDialect(driver) });
  return {
    db,
    listen: notifications.listen,
    poolStats: () => null,
    readDiskSpace: async () => {
      const { bavail, blocks, bsize } = await statfs(file);
      return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
    },
    isWritable: () => driver.isWritable,
    // `db.destroy` would not close a driver that no query has used.
    close: () => driver.destroy(),
  };
}

async function prepareOrClose(database: Database, prepare: (db: Db) => Promise<void>) {
  try {
    await prepare(database.db);
  } catch (error) {
    await database.close();
    throw error;
  }
  return database;
}

async function openPostgres(
  { url, listenUrl }: PostgresLocation,
  onError: OnError,
  purpose: ConnectionPurpose,
): Promise<Database> {
  const reportError = throttleErrorReports(onError);
  const pool = createPool(url, reportError, purpose);
  // Without a pooler, each connection has its own session, with its own settings and prepared statements.
  const hasSessions = listenUrl === undefined;
  const checkConnection = async (client: pg.PoolClient) => {
    if (hasSessions) {
      await prepareConnection(client, purpose);
    }
    // The service reads from the primary only, because lists that it read from a standby could be stale.
    if (purpose === 'service') {
      await assertWritable(client);
    }
  };
  await assertUsable(pool, 'DATABASE_URL', async (client) => {
    await checkConnection(client);
    await assertUtf8(client);
    // The doctor does not know whether the URL leads to a pooler.
    if (!hasSessions && listenUrl !== url) {
      await assertRequiredSettings(client);
    }
  });
  const connections = new PostgresPool(pool, {
    checkConnection,
    reportError,
    shouldPrepare: hasSessions,
  });
  return {
    db: new Kysely<DatabaseSchema>({ dialect: new PostgresDialect({ pool: connections }) }),
    listen: (listener) =>
      listenOnPostgres(listenUrl ?? url, listener, {
        onConnectionError: reportError,
        // After a failover, the pool may still be connected to the old server, which lacks later changes.
        onDisconnect: () => connections.retireConnections(),
      }),
    poolStats: () => ({
      idle: pool.idleCount,
      busy: pool.totalCount - pool.idleCount,
      waiting: pool.waitingCount,
      max: pool.options.max,
    }),
    readDiskSpace: async () => null,
    isWritable: () => connections.isReachable,
    close: async () => void (await waitAtMost(2_000, pool.ending ? null : pool.end())),
  };
}

/** Ends the pool and throws OperatorError if the connection does not pass the check. */
async function assertUsable(
  pool: pg.Pool,
  settingName: string,
  checkConnection: (client: pg.PoolClient) => Promise<void>,
): Promise<void> {
  try {
    const client = await pool.connect();
    await checkConnection(client).finally(() => client.release());
  } catch (error) {
    await pool.end();
    if (error instanceof OperatorError) {
      throw error;
    }
    throw new OperatorError(
      `${settingName}: the database cannot be reached (${rootCauseMessage(error)}).`,
    );
  }
}

/** If several processes start at the same time, Kysely's advisory lock makes them migrate one after the other. */
async function migratePostgres(
  { url, listenUrl }: PostgresLocation,
  onError: OnError,
  onProgress: OnProgress,
): Promise<void> {
  const pool = createMigrationPool(listenUrl ?? url, onError);
  const settingName = listenUrl === undefined ? 'DATABASE_URL' : 'DATABASE_LISTEN_URL';
  await assertUsable(pool, settingName, assertWritable);
  const db = new Kysely<DatabaseSchema>({ dialect: new PostgresDialect({ pool }) });
  try {
    await migrate(db, onProgress);
  } finally {
    await db.destroy();
  }
}

async function migrate(db: Db, onProgress: OnProgress): Promise<void> {
  if ((await compareMigrations(db)).missing.length === 0) {
    // Kysely would refuse migrations of newer versions. They only add to the tables, so this version works with them.
    return;
  }
  const migrationsWithProgress: Record<string, Migration> = {};
  for (const [name, { up }] of Object.entries(migrations)) {
    migrationsWithProgress[name] = {
      up: async (tx) => {
        onProgress(`applying migration ${name}`);
        await up(tx);
      },
    };
  }
  const provider = { getMigrations: async () => migrationsWithProgress };
  const { error } = await new Migrator({ db, provider }).migrateToLatest();
  if (error !== undefined) {
    throw new OperatorError(`The database migration failed: ${rootCauseMessage(error)}.`);
  }
}

async function assertMigrated(db: Db): Promise<void> {
  const { missing } = await compareMigrations(db);
  if (missing.length > 0) {
    throw new OperatorError(
      'The database is older than this version of nutpost. Upgrade the service to this version,' +
        ' then run `nutpost migrate`.',
    );
  }
}
