import { setTimeout as delay } from 'node:timers/promises';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import type pg from 'pg';
import { migrations } from '../../migrations/index.ts';
import { OperatorError, reasonOf } from '../errors.ts';
import { createDataDir, lockDataDir, requireDatabase, sqliteFile } from './data-dir.ts';
import { type Listen, listenOnServer } from './listen.ts';
import { LocalNotifications } from './local-notifications.ts';
import { MigrationStore } from './migration-store.ts';
import { createMigrationPool, createPool, type PoolUse, poolUse } from './postgres.ts';
import { preparingPool } from './prepared-statements.ts';
import type { Schema } from './schema.ts';
import { SqliteConnection } from './sqlite-connection.ts';
import { NodeSqliteDialect } from './sqlite-dialect.ts';
import { SqliteThread } from './sqlite-thread.ts';

/** An open database: PostgreSQL on a server, or SQLite. */
export interface Database {
  db: Kysely<Schema>;
  listen: Listen;
  /** The use of the connection pool; null for SQLite, which has no pool. */
  poolUse(): PoolUse | null;
  /** Whether the last write succeeded. False while the disk of SQLite is full or broken, or another process locks it. */
  isWritable(): boolean;
  /**
   * Cuts the WAL file of SQLite back, unless another process is reading. SQLite itself does so only when it is written
   * to after all readers have ended.
   */
  checkpoint(): Promise<void>;
  close(): Promise<void>;
}

/** A server that has vanished must not delay the shutdown. */
const CLOSE_TIMEOUT_MS = 2_000;

/** How long queries wait for the lock of another process. Payers wait this long. */
export const SERVICE_BUSY_TIMEOUT_MS = 3_000;

/** Operator commands wait longer, because no client waits for them. */
const COMMAND_BUSY_TIMEOUT_MS = 30_000;

/** Reads are on the main thread, and only wait for a process that recovers the database after a crash. */
const READ_BUSY_TIMEOUT_MS = 50;

/** Where the data is. */
export type DatabaseLocation =
  | { kind: 'postgres'; url: string }
  | { kind: 'sqlite'; dataDir: string };

/** Called with one line, without its end, for each migration that begins. */
type OnProgress = (line: string) => void;

type OnError = (error: Error) => void;

/**
 * Opens the database for a service, and applies the migrations that are missing.
 *
 * @param onError called when a connection to the server broke, or the disk of SQLite is full; the database keeps trying
 * @param onProgress called with one line, without its end, for each migration that begins
 * @throws OperatorError if the server cannot be reached, or another service uses the data directory
 */
export async function openDatabase(
  location: DatabaseLocation,
  onError: OnError,
  onProgress: OnProgress = () => undefined,
): Promise<Database> {
  switch (location.kind) {
    case 'postgres': {
      const { url } = location;
      const database = await openServer(url, onError, false);
      return prepared(database, () => migrateOnServer(url, onError, onProgress));
    }
    case 'sqlite':
      return openForService(location.dataDir, onError, onProgress);
  }
}

/**
 * Opens a database for an operator command, which may run beside a service: creates nothing and applies no migration.
 *
 * @param onError as for {@link openDatabase}
 * @throws OperatorError if there is no database, or its tables are older than this version needs
 */
export async function openExistingDatabase(
  location: DatabaseLocation,
  onError: OnError,
): Promise<Database> {
  return prepared(await openAsItIs(location, onError, true), refuseOldTables);
}

/**
 * Opens a database to look at it, whatever its tables are like.
 *
 * @param onError as for {@link openDatabase}
 * @throws OperatorError if there is no database or it cannot be reached
 */
export function openToLook(location: DatabaseLocation, onError: OnError): Promise<Database> {
  return openAsItIs(location, onError, false);
}

async function openAsItIs(
  location: DatabaseLocation,
  onError: OnError,
  isPatient: boolean,
): Promise<Database> {
  switch (location.kind) {
    case 'postgres':
      return openServer(location.url, onError, isPatient);
    case 'sqlite': {
      requireDatabase(location.dataDir);
      return openFile(sqliteFile(location.dataDir), onError, {
        switchToWal: false,
        busyTimeoutMs: isPatient ? COMMAND_BUSY_TIMEOUT_MS : SERVICE_BUSY_TIMEOUT_MS,
      });
    }
  }
}

/** Opens SQLite for the only service on a data directory. */
async function openForService(
  dataDir: string,
  onError: OnError,
  onProgress: OnProgress,
): Promise<Database> {
  createDataDir(dataDir);
  const unlock = lockDataDir(dataDir);
  try {
    const database = await openFile(sqliteFile(dataDir), onError, {
      switchToWal: true,
      busyTimeoutMs: SERVICE_BUSY_TIMEOUT_MS,
    });
    const close = async () => {
      await database.close();
      unlock();
    };
    return await prepared({ ...database, close }, async (db) => {
      await migrate(db, onProgress);
      await releaseLeases(db);
    });
  } catch (error) {
    unlock();
    throw error;
  }
}

/** The process that held these leases was killed: the data directory belongs to this service now. */
async function releaseLeases(db: Kysely<Schema>): Promise<void> {
  await sql`delete from watch_processes`.execute(db);
  await sql`update username_purchases set lease_holder = null, lease_until = null
    where lease_holder is not null`.execute(db);
}

async function openFile(
  file: string,
  onFailure: OnError,
  { switchToWal, busyTimeoutMs }: { switchToWal: boolean; busyTimeoutMs: number },
): Promise<Database> {
  const mode = switchToWal ? 'switch to WAL' : 'write';
  const openReader = () =>
    new SqliteConnection({ file, mode: 'read', busyTimeoutMs: READ_BUSY_TIMEOUT_MS });
  const onNotify = (channel: string, payload: string) => notifications.emit(channel, payload);
  let writer: SqliteThread | null = null;
  let dialect: NodeSqliteDialect;
  try {
    writer = await SqliteThread.open({ file, mode, busyTimeoutMs });
    dialect = new NodeSqliteDialect({ writer, openReader }, { onNotify, onFailure });
  } catch (error) {
    await writer?.close();
    throw new OperatorError(`DATA_DIR: ${file} cannot be used (${(error as Error).message}).`);
  }
  const db = new Kysely<Schema>({ dialect });
  const notifications = new LocalNotifications(async () => {
    const { rows } = await sql<{ data_version: number }>`pragma data_version`.execute(db);
    return rows[0]?.data_version ?? 0;
  });
  return {
    db,
    listen: (listener) => notifications.listen(listener),
    poolUse: () => null,
    isWritable: () => dialect.isWritable,
    checkpoint: () => dialect.checkpoint(),
    close: async () => {
      await db.destroy();
      await dialect.close();
    },
  };
}

async function prepared(
  database: Database,
  prepare: (db: Kysely<Schema>) => Promise<void>,
): Promise<Database> {
  try {
    await prepare(database.db);
  } catch (error) {
    await database.close();
    throw error;
  }
  return database;
}

async function openServer(url: string, onError: OnError, isPatient: boolean): Promise<Database> {
  const pool = createPool(url, onError, isPatient);
  try {
    await pool.query('select 1');
  } catch (error) {
    await pool.end();
    throw error instanceof OperatorError
      ? error
      : new OperatorError(`DATABASE_URL: the database cannot be reached (${reasonOf(error)}).`);
  }
  const db = new Kysely<Schema>({
    dialect: new PostgresDialect({ pool: preparingPool(pool, onError) }),
  });
  return {
    db,
    listen: (listener) => listenOnServer(url, listener, onError),
    poolUse: () => poolUse(pool),
    isWritable: () => true,
    checkpoint: async () => undefined,
    close: () =>
      Promise.race([endAll(db, pool), delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })]),
  };
}

/** Kysely ends a pool that it was asked to use, and leaves one alone that only we have used. */
async function endAll(db: Kysely<Schema>, pool: pg.Pool): Promise<void> {
  await db.destroy();
  if (!pool.ending) {
    await pool.end();
  }
}

/** Applies what is missing, one process at a time: Kysely holds an advisory lock, for which the others wait. */
async function migrateOnServer(
  url: string,
  onError: OnError,
  onProgress: OnProgress,
): Promise<void> {
  const db = new Kysely<Schema>({
    dialect: new PostgresDialect({ pool: createMigrationPool(url, onError) }),
  });
  try {
    await migrate(db, onProgress);
  } finally {
    await db.destroy();
  }
}

async function migrate(db: Kysely<Schema>, onProgress: OnProgress): Promise<void> {
  const announced = Object.entries(migrations).map(([name, { up }]): [string, Migration] => {
    const announcedUp: Migration['up'] = async (tx) => {
      onProgress(`Applying migration ${name}`);
      await up(tx);
    };
    return [name, { up: announcedUp }];
  });
  const provider = { getMigrations: async () => Object.fromEntries(announced) };
  const { error } = await new Migrator({ db, provider }).migrateToLatest();
  if (error !== undefined) {
    throw new OperatorError(`The database could not be brought up to date: ${reasonOf(error)}.`);
  }
}

async function refuseOldTables(db: Kysely<Schema>): Promise<void> {
  const { missing } = await new MigrationStore(db).compare();
  if (missing.length > 0) {
    throw new OperatorError(
      'The database is older than this version of nutpost: `nutpost migrate` brings it up to date,' +
        ' and the service has to be of this version then, too.',
    );
  }
}
