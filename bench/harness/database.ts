import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { run } from '../../scripts/machine.ts';
import { openDatabase } from '../../src/database/database.ts';

/** A database for one figure or run, with up-to-date tables. */
export interface BenchDatabase extends AsyncDisposable {
  url: string;
  query<Result>(statement: string, values?: unknown[]): Promise<Result[]>;
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

async function queryOnce(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}
