import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openDatabase } from '../../src/database/database.ts';
import { createUnmigratedDatabase, postgresUrl, type TestDatabase } from '../helpers/database.ts';

/** Migrations on PostgreSQL. */

let testDatabase: TestDatabase;
let url: string;
let reader: pg.Client;

beforeEach(async () => {
  testDatabase = await createUnmigratedDatabase();
  url = postgresUrl(testDatabase);
  reader = new pg.Client(url);
  await reader.connect();
});

afterEach(async () => {
  await reader.end();
  await testDatabase.drop();
});

it('overrides the statement timeout of the database', async () => {
  await reader.query(`
    alter database ${new URL(url).pathname.slice(1)} set statement_timeout = '1s';
    create table seen (statement_timeout text);
    create function see() returns event_trigger language plpgsql as $$
      begin insert into seen values (current_setting('statement_timeout')); end $$;
    create event trigger see on ddl_command_start execute function see();`);
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  const { rows } = await reader.query('select distinct statement_timeout from seen');
  expect(rows).toEqual([{ statement_timeout: '0' }]);
  await database.close();
});

it('reports why it fails, and leaves the tables unchanged', async () => {
  await reader.query('create table quote_events ()');
  await expect(openDatabase({ kind: 'postgres', url }, () => undefined)).rejects.toThrow(
    /^The database migration failed: .*quote_events.* already exists\.$/,
  );
  const { rows } = await reader.query(
    `select 1 from information_schema.tables where table_name = 'quotes'`,
  );
  expect(rows).toEqual([]);
});
