import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { type Database, type DatabaseLocation, openDatabase } from '../../src/store/database.ts';

/** A database of its own for one test or file, on the server of `TEST_DATABASE_URL` or in memory. */
export interface TestDatabase {
  location: DatabaseLocation;
  /** Opens it, like one more process would; only a server can be opened more than once. */
  open(): Promise<Database>;
  /** Removes it, once all that was opened is closed. */
  drop(): Promise<void>;
}

/** Whether the tests run on a PostgreSQL server, where several processes can share a database. */
export const hasServer = process.env['TEST_DATABASE_URL'] !== undefined;

/** Makes an empty database. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const server = process.env['TEST_DATABASE_URL'];
  if (server === undefined) {
    return testDatabase({ kind: 'memory' }, async () => undefined);
  }
  const name = `nutpost_test_${randomBytes(6).toString('hex')}`;
  await onServer(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return testDatabase({ kind: 'postgres', url: url.href }, () =>
    onServer(server, `drop database ${name} with (force)`),
  );
}

function testDatabase(location: DatabaseLocation, drop: () => Promise<void>): TestDatabase {
  return { location, open: () => openDatabase(location, () => undefined), drop };
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}
