import pg from 'pg';
import { beforeEach, expect, it } from 'vitest';
import { openDatabase } from '../../src/database/database.ts';
import { createUnmigratedDatabase, requirePostgresUrl } from '../helpers/database/test-database.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';
import { TEST_JWT_SECRET } from '../helpers/service/test-environment.ts';

let url: string;
let client: pg.Client;

beforeEach(async () => {
  const testDatabase = await createUnmigratedDatabase();
  url = requirePostgresUrl(testDatabase);
  client = new pg.Client(url);
  await client.connect();
  return async () => {
    await client.end();
    await testDatabase.drop();
  };
});

it('runs without the statement timeout that is configured for the database', async () => {
  // The event trigger records the timeout of each statement of the migrations.
  await client.query(`
    alter database ${new URL(url).pathname.slice(1)} set statement_timeout = '1s';
    create table observed (statement_timeout text);
    create function record_timeout() returns event_trigger language plpgsql as $$
      begin insert into observed values (current_setting('statement_timeout')); end $$;
    create event trigger record_timeout on ddl_command_start execute function record_timeout();`);
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  const { rows } = await client.query('select distinct statement_timeout from observed');
  expect(rows).toEqual([{ statement_timeout: '0' }]);
  await database.close();
});

it('applies each migration once if several processes start at the same time', async () => {
  const env = { DATABASE_URL: url, JWT_SECRET: TEST_JWT_SECRET };
  const processes = Array.from({ length: 4 }, () => new NutpostProcess('migrate', env));
  for (const process of processes) {
    expect(await process.waitForExit()).toEqual({ code: 0, signal: null, stderr: '' });
  }
  const { rows } = await client.query<{ name: string }>('select name from kysely_migration');
  const names = rows.map(({ name }) => name);
  expect(names).not.toEqual([]);
  expect(new Set(names).size).toBe(names.length);
});

it('reports why it fails, and creates no tables', async () => {
  await client.query('create table quote_events ()');
  await expect(openDatabase({ kind: 'postgres', url }, () => undefined)).rejects.toThrow(
    /^The database migration failed: .*quote_events.* already exists\.$/,
  );
  const { rows } = await client.query(
    `select 1 from information_schema.tables where table_name = 'quotes'`,
  );
  expect(rows).toEqual([]);
});
