import { randomBytes } from 'node:crypto';
import pg from 'pg';

/** An empty database on the PostgreSQL server of the suite `operations`, whatever other tests use. */
export async function createServerDatabase(): Promise<{ url: string; drop: () => Promise<void> }> {
  const server = process.env['OPERATIONS_DATABASE_URL'];
  if (server === undefined) {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:operations`');
  }
  const name = `nutpost_operations_${randomBytes(6).toString('hex')}`;
  await onServer(server, `create database ${name}`);
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
