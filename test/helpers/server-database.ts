import { randomBytes } from 'node:crypto';
import pg from 'pg';

/** A database on a server, for as long as it is needed. */
export interface ServerDatabase {
  url: string;
  drop(): Promise<void>;
}

/** Makes an empty one on the server of the suite `operations`, whatever other tests use. */
export async function createServerDatabase(): Promise<ServerDatabase> {
  const server = process.env['OPERATIONS_DATABASE_URL'];
  if (server === undefined) {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:operations`');
  }
  return createDatabaseOn(server, 'template0');
}

/** Makes one on any server. @param template the database that it is a copy of */
export async function createDatabaseOn(server: string, template: string): Promise<ServerDatabase> {
  const name = `nutpost_test_${randomBytes(6).toString('hex')}`;
  await onServer(server, `create database ${name} template ${template}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => onServer(server, `drop database ${name} with (force)`) };
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}
