import { randomBytes } from 'node:crypto';
import pg from 'pg';

export interface TemporaryPostgresDatabase {
  url: string;
  drop(): Promise<void>;
}

/** Creates an empty database on the PostgreSQL server that `npm run test:operations` starts. */
export async function createOperationsDatabase(): Promise<TemporaryPostgresDatabase> {
  const serverUrl = process.env['OPERATIONS_DATABASE_URL'];
  if (serverUrl === undefined) {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:operations`');
  }
  return createTemporaryPostgresDatabase(serverUrl, 'template0');
}

export async function createTemporaryPostgresDatabase(
  serverUrl: string,
  template: string,
): Promise<TemporaryPostgresDatabase> {
  const name = `nutpost_test_${randomBytes(6).toString('hex')}`;
  await runStatement(serverUrl, `create database ${name} template ${template}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    drop: () => runStatement(serverUrl, `drop database ${name} with (force)`),
  };
}

export async function runStatement(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}
