import { setTimeout as delay } from 'node:timers/promises';
import type { PGlite } from '@electric-sql/pglite';
import { CompiledQuery, Kysely, PGliteDialect, PostgresDialect } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import type pg from 'pg';
import { migrations } from '../../migrations/index.ts';
import { OperatorError } from '../domain/errors.ts';
import { openEmbedded, openInMemory, refuseMissingFiles } from './embedded.ts';
import { LeaseStore } from './lease-store.ts';
import { type Listen, type Listener, type Listening, listenOnServer } from './listen.ts';
import { preparingPool } from './prepared-statements.ts';
import { PurchaseStore } from './purchase-store.ts';
import { reachablePool } from './reachable-pool.ts';
import type { Schema } from './schema.ts';
import { createMigrationPool, createPool, type PoolUse, poolUse } from './server.ts';
import { WithdrawalStore } from './withdrawal-store.ts';

/** An open database: PostgreSQL on a server, or embedded in this process. */
export interface Database {
  db: Kysely<Schema>;
  listen: Listen;
  /** How its connections are used now; null where there is no server to connect to. */
  poolUse(): PoolUse | null;
  close(): Promise<void>;
}

/** A server that has vanished does not answer a goodbye, and must not hold up the end. */
const GOODBYE_MS = 2_000;

/** Where the data is. `memory` keeps nothing and is for tests. */
export type DatabaseLocation =
  | { kind: 'postgres'; url: string }
  | { kind: 'embedded'; dataDir: string }
  | {
      kind: 'memory';
      /** What PGlite's `dumpDataDir` gave of another, to begin with; absent: nothing. */
      dump?: Blob;
    };

/**
 * The operator's commands have an embedded database for seconds, while no service does; one that starts
 * then waits for them to end.
 */
const COMMANDS_END_WITHIN_MS = 10_000;

/** PostgreSQL's class of `integrity_constraint_violation`. */
const CONSTRAINT_VIOLATIONS = /^23/;

/** Told how far it is, in one line without its end. */
type OnProgress = (line: string) => void;

const untold: OnProgress = () => undefined;

/**
 * Opens the database and brings its tables up to date.
 *
 * @param onConnectionError told of connections to a server that broke or cannot be made; others take
 *   their place
 * @param onProgress called with one line, without its end, for each migration that begins
 * @throws OperatorError where the server does not answer, or writes times in a way of its own, or another
 *   process has the files open
 */
export async function openDatabase(
  location: DatabaseLocation,
  onConnectionError: (error: Error) => void,
  onProgress: OnProgress = untold,
): Promise<Database> {
  if (location.kind === 'postgres') {
    const { url } = location;
    const database = await openServer(url, onConnectionError, false);
    return prepared(database, () => migrateOnServer(url, onConnectionError, onProgress));
  }
  const database = await openInProcess(location, COMMANDS_END_WITHIN_MS);
  return prepared(database, (db) => migrateAlone(db, onProgress));
}

/**
 * Opens a database as it is, at once: none is made, and no table is changed under a service that may be
 * running.
 *
 * @param onConnectionError as {@link openDatabase}
 * @throws DataDirInUseError where another process has the files open
 * @throws OperatorError where there is none, or its tables are older than this version needs
 */
export async function openExistingDatabase(
  location: DatabaseLocation,
  onConnectionError: (error: Error) => void,
): Promise<Database> {
  // An operator's command may read and write all that there is, and somebody is there to end it.
  return prepared(await openAsItIs(location, onConnectionError, true), refuseOldTables);
}

/**
 * Opens a database whatever its tables are like, for who only looks at it.
 *
 * @param onConnectionError as {@link openDatabase}
 * @throws DataDirInUseError where another process has the files open
 * @throws OperatorError where there is none, it cannot be reached, or writes times in a way of its own
 */
export function openToLook(
  location: DatabaseLocation,
  onConnectionError: (error: Error) => void,
): Promise<Database> {
  return openAsItIs(location, onConnectionError, false);
}

async function openAsItIs(
  location: DatabaseLocation,
  onConnectionError: (error: Error) => void,
  isPatient: boolean,
): Promise<Database> {
  if (location.kind === 'embedded') {
    refuseMissingFiles(location.dataDir);
  }
  return location.kind === 'postgres'
    ? openServer(location.url, onConnectionError, isPatient)
    : openInProcess(location, 0);
}

/** Whether the database refused a change because rows would contradict each other. */
export function isConstraintViolation(error: unknown): boolean {
  return CONSTRAINT_VIOLATIONS.test(codeOf(error));
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

async function openServer(
  url: string,
  onConnectionError: (error: Error) => void,
  isPatient: boolean,
): Promise<Database> {
  const pool = createPool(url, onConnectionError, isPatient);
  try {
    // A time, which has to be readable too.
    await pool.query('select now()');
  } catch (error) {
    await pool.end();
    throw error instanceof OperatorError
      ? error
      : new OperatorError(`DATABASE_URL: the database cannot be reached (${reasonOf(error)}).`);
  }
  const db = new Kysely<Schema>({
    dialect: new PostgresDialect({ pool: reachablePool(preparingPool(pool), onConnectionError) }),
  });
  return {
    db,
    listen: (listener) => listenOnServer(url, listener, onConnectionError),
    poolUse: () => poolUse(pool),
    close: () => Promise.race([endAll(db, pool), delay(GOODBYE_MS, undefined, { ref: false })]),
  };
}

/** Kysely ends a pool that it was asked to use, and leaves one alone that only we have used. */
async function endAll(db: Kysely<Schema>, pool: pg.Pool): Promise<void> {
  await db.destroy();
  if (!pool.ending) {
    await pool.end();
  }
}

/** Of PostgreSQL's own errors, the SQLSTATE; of others something else or nothing. */
function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** What an error of a database says. Of a host with several addresses it has a code and no message. */
export function reasonOf(error: unknown): string {
  const { message = '', code = '', cause } = error as Error & { code?: string };
  return cause === undefined ? message || code : reasonOf(cause);
}

async function openInProcess(
  location: Exclude<DatabaseLocation, { kind: 'postgres' }>,
  waitMs: number,
): Promise<Database> {
  const { pglite, release } =
    location.kind === 'embedded'
      ? await openEmbedded(location.dataDir, waitMs)
      : await openInMemory(location.dump);
  const db = new Kysely<Schema>({ dialect: new PGliteDialect({ pglite }) });
  return {
    db,
    listen: (listener) => listenInProcess(pglite, listener),
    poolUse: () => null,
    close: async () => {
      await pglite.close();
      release();
    },
  };
}

/** Here no connection can break, so that there is never a gap. */
async function listenInProcess(pglite: PGlite, { channels }: Listener): Promise<Listening> {
  const unlisten = await Promise.all(
    Object.entries(channels).map(([channel, onPayload]) => pglite.listen(channel, onPayload)),
  );
  return {
    isConnected: true,
    close: async () => {
      await Promise.all(unlisten.map((stop) => stop()));
    },
  };
}

/** Nobody else can have an embedded database open: a process that is said to be at work was killed. */
async function migrateAlone(db: Kysely<Schema>, onProgress: OnProgress): Promise<void> {
  const { error } = await migratorOf(db, onProgress).migrateToLatest();
  refuseFailure(error);
  await new LeaseStore(db).clear();
  await new PurchaseStore(db).releaseAll();
  await new WithdrawalStore(db).releaseAll();
}

/** Applies what is missing, one process at a time: Kysely holds an advisory lock, for which the others wait. */
async function migrateOnServer(
  url: string,
  onConnectionError: (error: Error) => void,
  onProgress: OnProgress,
): Promise<void> {
  const db = new Kysely<Schema>({
    dialect: new PostgresDialect({
      pool: createMigrationPool(url, onConnectionError),
      onCreateConnection: async (connection) => {
        // Said outright, since a role or a database may have timeouts of its own.
        await connection.executeQuery(
          CompiledQuery.raw('set statement_timeout = 0; set lock_timeout = 0'),
        );
      },
    }),
  });
  try {
    const { error } = await migratorOf(db, onProgress).migrateToLatest();
    refuseFailure(error);
  } finally {
    await db.destroy();
  }
}

function refuseFailure(error: unknown): void {
  if (error !== undefined) {
    throw new OperatorError(`The database could not be brought up to date: ${reasonOf(error)}.`);
  }
}

async function refuseOldTables(db: Kysely<Schema>): Promise<void> {
  const known = await migratorOf(db, untold).getMigrations();
  if (known.some(({ executedAt }) => executedAt === undefined)) {
    throw new OperatorError(
      'The database is older than this version of nutpost: `nutpost migrate` brings it up to date,' +
        ' and the service has to be of this version then, too.',
    );
  }
}

function migratorOf(db: Kysely<Schema>, onProgress: OnProgress): Migrator {
  return new Migrator({ db, provider: { getMigrations: async () => announced(onProgress) } });
}

/** The migrations, each of which reports that it begins. */
function announced(onProgress: OnProgress): Record<string, Migration> {
  const all = Object.entries(migrations).map(([name, { up }]): [string, Migration] => {
    const announcedUp: Migration['up'] = async (db) => {
      onProgress(`Applying migration ${name}`);
      await up(db);
    };
    return [name, { up: announcedUp }];
  });
  return Object.fromEntries(all);
}
