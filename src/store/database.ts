import { setTimeout as delay } from 'node:timers/promises';
import { Kysely, PGliteDialect, PostgresDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import { migrations } from '../../migrations/index.ts';
import { OperatorError } from '../domain/errors.ts';
import { openEmbedded } from './embedded.ts';
import { type Listen, listenOnServer } from './listen.ts';
import type { Schema } from './schema.ts';
import { createPool } from './server.ts';

/** An open database: PostgreSQL on a server, or embedded in this process. */
export interface Database {
  db: Kysely<Schema>;
  listen: Listen;
  close(): Promise<void>;
}

/** A server that has vanished does not answer a goodbye, and must not hold up the end. */
const GOODBYE_MS = 2_000;

/** Where the data is. `memory` keeps nothing and is for tests. */
export type DatabaseLocation =
  | { kind: 'postgres'; url: string }
  | { kind: 'embedded'; dataDir: string }
  | { kind: 'memory' };

/**
 * Opens the database and brings its tables up to date.
 *
 * @param onConnectionError told of connections to a server that broke; others take their place
 * @throws OperatorError where the server does not answer, or another process has the files open
 */
export async function openDatabase(
  location: DatabaseLocation,
  onConnectionError: (error: Error) => void,
): Promise<Database> {
  const database =
    location.kind === 'postgres'
      ? await openServer(location.url, onConnectionError)
      : await openInProcess(location);
  try {
    await migrate(database.db);
  } catch (error) {
    await database.close();
    throw error;
  }
  return database;
}

async function openServer(
  url: string,
  onConnectionError: (error: Error) => void,
): Promise<Database> {
  const pool = createPool(url, onConnectionError);
  try {
    await pool.query('select 1');
  } catch (error) {
    await pool.end();
    throw new OperatorError(`DATABASE_URL: the database cannot be reached (${reasonOf(error)}).`);
  }
  const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
  return {
    db,
    listen: (channel, listener) => listenOnServer(url, channel, listener, onConnectionError),
    close: () => Promise.race([db.destroy(), delay(GOODBYE_MS, undefined, { ref: false })]),
  };
}

/** Of a host with several addresses the error has a code and no message. */
function reasonOf(error: unknown): string {
  const { message = '', code = '' } = error as { message?: string; code?: string };
  return message || code;
}

async function openInProcess(
  location: Exclude<DatabaseLocation, { kind: 'postgres' }>,
): Promise<Database> {
  const { pglite, release } = await openEmbedded(
    location.kind === 'embedded' ? location.dataDir : null,
  );
  const db = new Kysely<Schema>({ dialect: new PGliteDialect({ pglite }) });
  return {
    db,
    listen: async (channel, listener) => {
      const unlisten = await pglite.listen(channel, listener.onNotification);
      return { close: () => unlisten() };
    },
    close: async () => {
      await pglite.close();
      release();
    },
  };
}

/** Applies what is missing, one process at a time: Kysely holds an advisory lock on a server. */
async function migrate(db: Kysely<Schema>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) {
    throw new OperatorError(`The database could not be brought up to date: ${reasonOf(error)}.`);
  }
}
