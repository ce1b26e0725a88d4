import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import pg from 'pg';
import { runProgram } from '../../scripts/debian-packages.ts';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { openDatabase } from '../../src/database/database.ts';

/** A database that the service can use. */
export interface ServiceDatabase extends AsyncDisposable {
  /** The settings that make the service use this database. */
  env: Record<string, string>;
  query<Result>(statement: string): Promise<Result[]>;
}

/** A migrated PostgreSQL database for one figure or run. */
export interface BenchPostgresDatabase extends ServiceDatabase {
  url: string;
  query<Result>(statement: string, values?: unknown[]): Promise<Result[]>;
}

/** A data directory with an SQLite database, for one figure or run. */
export interface BenchDataDir extends ServiceDatabase {
  env: { DATA_DIR: string };
}

/**
 * Creates a database on a PostgreSQL server. Disposing of it drops the database.
 *
 * @param fill inserts rows
 */
export async function createPostgresDatabase(
  serverUrl: string,
  fill?: (database: BenchPostgresDatabase) => Promise<void>,
): Promise<BenchPostgresDatabase> {
  const name = `bench_${randomBytes(6).toString('hex')}`;
  await queryOnce(serverUrl, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const migrated = await openDatabase({ kind: 'postgres', url: url.href }, () => undefined);
  await migrated.close();

  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  const database: BenchPostgresDatabase = {
    url: url.href,
    env: { DATABASE_URL: url.href },
    query: async <Result>(statement: string, values: unknown[] = []) =>
      (await client.query(statement, values)).rows as Result[],
    [Symbol.asyncDispose]: async () => {
      await client.end();
      await queryOnce(serverUrl, `drop database ${name} with (force)`);
    },
  };
  await fill?.(database);
  await database.query('analyze');
  // Pending writes would delay the commits during the measurement.
  await database.query('checkpoint');
  await runProgram('sync', []);
  return database;
}

/** Creates an empty data directory for SQLite. Disposing of it removes the directory. */
export async function createDataDir(): Promise<BenchDataDir> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-bench-'));
  return {
    env: { DATA_DIR: dataDir },
    query: async <Result>(statement: string) => {
      using sqlite = new DatabaseSync(sqliteFilePath(dataDir));
      return sqlite.prepare(statement).all() as Result[];
    },
    [Symbol.asyncDispose]: () => rm(dataDir, { recursive: true }),
  };
}

/** Copies the users and quotes of a PostgreSQL database into a new data directory. */
export async function copyToDataDir(source: BenchPostgresDatabase): Promise<BenchDataDir> {
  const dataDir = await createDataDir();
  const { DATA_DIR } = dataDir.env;
  const migrated = await openDatabase({ kind: 'sqlite', dataDir: DATA_DIR }, () => undefined);
  await migrated.close();
  using sqlite = new DatabaseSync(sqliteFilePath(DATA_DIR));
  sqlite.exec('begin');
  for (const table of ['users', 'quotes']) {
    const rows = await source.query<Record<string, SQLInputValue>>(`select * from ${table}`);
    const columns = Object.keys(rows[0] ?? {});
    const insert = sqlite.prepare(
      `insert into ${table} (${columns}) values (${columns.map(() => '?')})`,
    );
    for (const row of rows) {
      insert.run(...Object.values(row));
    }
  }
  sqlite.exec('commit; analyze');
  return dataDir;
}

async function queryOnce(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}
