import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { run } from '../../scripts/machine.ts';
import { type Database, type DatabaseLocation, openDatabase } from '../../src/store/database.ts';
import type { PostgresStart } from '../processes/postgres.ts';
import { NodeProcess } from './node-process.ts';

/** A missing server is installed from the distribution, where that is possible. */
const INSTALLATION_MS = 300_000;

/** An empty database for one figure or run. Its files are synced at every commit. */
export interface BenchDatabase extends AsyncDisposable {
  /** The setting that makes the service, or a floor, use it. */
  env: Record<string, string>;
  /** Creates the tables and puts something into them, while no other process has it open. */
  prepare(fill?: (db: Database['db']) => Promise<void>): Promise<void>;
}

/** Where the databases of a benchmark are: on a PostgreSQL server of its own, else embedded. */
export class DatabaseHost implements AsyncDisposable {
  /** For the head of the table. */
  readonly description: string;
  /** As it was started, for a process that shares it. */
  readonly server: PostgresStart;
  readonly #holder: NodeProcess | null;

  /** Starts a server, which ends with this. */
  static async start(): Promise<DatabaseHost> {
    const program = import.meta.resolve('../processes/postgres.ts');
    const holder = new NodeProcess('PostgreSQL', program);
    try {
      const server = await holder.next<PostgresStart>(INSTALLATION_MS);
      if (server.url === null) {
        console.error(`${server.reason}\nBoth sides of each figure use the embedded database.\n`);
      }
      return new DatabaseHost(server, holder);
    } catch (error) {
      await holder[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Where another process has started one, which keeps it. */
  static on(server: PostgresStart): DatabaseHost {
    return new DatabaseHost(server, null);
  }

  private constructor(server: PostgresStart, holder: NodeProcess | null) {
    this.server = server;
    this.#holder = holder;
    this.description = server.url === null ? 'embedded database' : `PostgreSQL ${server.version}`;
  }

  /**
   * Makes a database; it is there until it is disposed of. What was written, or deleted, before is on the disk by then,
   * so that no commit has to wait for it.
   */
  async create(): Promise<BenchDatabase> {
    const { url } = this.server;
    const database = await (url === null ? createEmbedded() : createOnServer(url));
    if (url !== null) {
      await onServer(url, 'checkpoint');
    }
    await run('sync', []);
    return database;
  }

  /** Makes an embedded one, whatever the others are. */
  createEmbedded(): Promise<BenchDatabase> {
    return createEmbedded();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#holder?.[Symbol.asyncDispose]();
  }
}

async function createOnServer(serverUrl: string): Promise<BenchDatabase> {
  const name = `bench_${randomBytes(6).toString('hex')}`;
  await onServer(serverUrl, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return {
    env: { DATABASE_URL: url.href },
    prepare: (fill) => prepare({ kind: 'postgres', url: url.href }, fill),
    [Symbol.asyncDispose]: () => onServer(serverUrl, `drop database ${name} with (force)`),
  };
}

async function createEmbedded(): Promise<BenchDatabase> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-bench-'));
  return {
    env: { DATA_DIR: dataDir },
    prepare: (fill) => prepare({ kind: 'embedded', dataDir }, fill),
    [Symbol.asyncDispose]: () => rm(dataDir, { recursive: true, force: true }),
  };
}

async function prepare(
  location: DatabaseLocation,
  fill: (db: Database['db']) => Promise<void> = async () => undefined,
): Promise<void> {
  const database = await openDatabase(location, () => undefined);
  try {
    await fill(database.db);
  } finally {
    await database.close();
  }
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}
