import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import pg from 'pg';
import { run } from '../../scripts/machine.ts';
import { sqliteFile } from '../../src/database/data-dir.ts';
import { openDatabase } from '../../src/database/database.ts';

/** A database that the service can use. */
export interface ServiceDatabase extends AsyncDisposable {
  /** The setting that names it. */
  settings: Record<string, string>;
  query<Result>(statement: string): Promise<Result[]>;
}

/** A database on a PostgreSQL server for one figure or run, with up-to-date tables. */
export interface BenchDatabase extends ServiceDatabase {
  url: string;
  query<Result>(statement: string, values?: unknown[]): Promise<Result[]>;
}

/** A data directory for one figure or run. */
export interface DataDir extends ServiceDatabase {
  settings: { DATA_DIR: string };
}

/**
 * Creates a database on a PostgreSQL server; it is dropped when disposed of.
 *
 * @param fill puts rows into it
 */
export async function createDatabase(
  serverUrl: string,
  fill?: (database: BenchDatabase) => Promise<void>,
): Promise<BenchDatabase> {
  const name = `bench_${randomBytes(6).toString('hex')}`;
  await queryOnce(serverUrl, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const migrated = await openDatabase({ kind: 'postgres', url: url.href }, () => undefined);
  await migrated.close();

  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  const database: BenchDatabase = {
    url: url.href,
    settings: { DATABASE_URL: url.href },
    query: async <Result>(statement: string, values: unknown[] = []) =>
      (await client.query(statement, values)).rows as Result[],
    [Symbol.asyncDispose]: async () => {
      await client.end();
      await queryOnce(serverUrl, `drop database ${name} with (force)`);
    },
  };
  await fill?.(database);
  // What was written or dropped before must not delay the commits that are measured.
  await database.query('analyze');
  await database.query('checkpoint');
  await run('sync', []);
  return database;
}

/** Creates an empty data directory, which is removed when disposed of. The service puts SQLite into it. */
export async function createDataDir(): Promise<DataDir> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-bench-'));
  return {
    settings: { DATA_DIR: dataDir },
    query: async <Result>(statement: string) => {
      using sqlite = new DatabaseSync(sqliteFile(dataDir));
      return sqlite.prepare(statement).all() as Result[];
    },
    [Symbol.asyncDispose]: () => rm(dataDir, { recursive: true }),
  };
}

/** Creates a data directory with the users and quotes of a database on PostgreSQL. */
export async function copyToDataDir(source: BenchDatabase): Promise<DataDir> {
  const dataDir = await createDataDir();
  const { DATA_DIR } = dataDir.settings;
  const migrated = await openDatabase({ kind: 'sqlite', dataDir: DATA_DIR }, () => undefined);
  await migrated.close();
  using sqlite = new DatabaseSync(sqliteFile(DATA_DIR));
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
