import { randomBytes } from 'node:crypto';
import pg from 'pg';

/** A temporary database on a server. */
export interface TemporaryPostgresDatabase {
  url: string;
  drop(): Promise<void>;
}

/** Creates an empty database on the server of the `operations` suite. */
export async function createOperationsDatabase(): Promise<TemporaryPostgresDatabase> {
  const server = process.env['OPERATIONS_DATABASE_URL'];
  if (server === undefined) {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:operations`');
  }
  return createPostgresDatabaseFrom(server, 'template0');
}

/** Creates a database on any server. @param template the database to copy */
export async function createPostgresDatabaseFrom(
  server: string,
  template: string,
): Promise<TemporaryPostgresDatabase> {
  const name = `nutpost_test_${randomBytes(6).toString('hex')}`;
  await runStatement(server, `create database ${name} template ${template}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => runStatement(server, `drop database ${name} with (force)`) };
}

async function runStatement(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}
