import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openDatabase } from '../../src/store/database.ts';
import { createBareDatabase, type TestDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';

/** How the tables are made on a server. */

/** Of a lock that Kysely's migrator takes. */
const MIGRATION_LOCK = '3853314791062309107';

let testDatabase: TestDatabase;
let url: string;
let holder: pg.Client;
let reader: pg.Client;

beforeEach(async () => {
  testDatabase = await createBareDatabase();
  if (testDatabase.location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  url = testDatabase.location.url;
  [holder, reader] = [new pg.Client(url), new pg.Client(url)];
  await Promise.all([holder.connect(), reader.connect()]);
});

afterEach(async () => {
  await Promise.all([holder.end(), reader.end()]);
  await testDatabase.drop();
});

it('leaves the indexes that queries need, and no others', async () => {
  await (await openDatabase({ kind: 'postgres', url }, () => undefined)).close();
  const { rows } = await reader.query(
    `select indexname from pg_indexes where tablename = 'quotes' order by indexname`,
  );
  expect(rows.map(({ indexname }) => indexname)).toEqual([
    'quotes_by_payment_hash',
    'quotes_by_recipient_and_time',
    'quotes_by_verify_token',
    'quotes_listed_page',
    'quotes_mint_url_quote_id_key',
    'quotes_open_by_address_group',
    'quotes_pkey',
    'quotes_watched_by_mint',
  ]);
});

it('waits for another process that is migrating, and finds all done', async () => {
  await holder.query(`select pg_advisory_lock(${MIGRATION_LOCK})`);
  const opening = [1, 2].map(() => openDatabase({ kind: 'postgres', url }, () => undefined));
  await aMigrationWaits();
  await holder.query(`select pg_advisory_unlock(${MIGRATION_LOCK})`);
  for (const database of await Promise.all(opening)) {
    await database.close();
  }
  await reader.query('select from quotes');
});

it('takes as long as it takes, whatever time the database allows a statement', async () => {
  await reader.query(`
    alter database ${new URL(url).pathname.slice(1)} set statement_timeout = '1ms';
    create table seen (statement_timeout text);
    create function see() returns event_trigger language plpgsql as $$
      begin insert into seen values (current_setting('statement_timeout')); end $$;
    create event trigger see on ddl_command_start execute function see();`);
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  const { rows } = await reader.query('select distinct statement_timeout from seen');
  expect(rows).toEqual([{ statement_timeout: '0' }]);
  await database.close();
});

it('says what keeps it from its work, and leaves the tables as they were', async () => {
  await reader.query('create table quote_events ()');
  await expect(openDatabase({ kind: 'postgres', url }, () => undefined)).rejects.toThrow(
    /^The database could not be brought up to date: .*quote_events.* already exists\.$/,
  );
  const { rows } = await reader.query(
    `select 1 from information_schema.tables where table_name = 'quotes'`,
  );
  expect(rows).toEqual([]);
});

/** Resolves when a session of the service waits for Kysely's advisory lock. */
async function aMigrationWaits(): Promise<void> {
  await eventually(async () => {
    const { rows } = await reader.query(
      `select 1 from pg_locks join pg_stat_activity using (pid)
         where not granted and locktype = 'advisory' and application_name = 'nutpost'
           and datname = current_database()`,
    );
    expect(rows.length).toBeGreaterThan(0);
  });
}
