import { Kysely, PostgresDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import { openDatabase } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { createBareDatabase, type TestDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';

/** A new version starts on tables of an old one, which others are using. */

const OLD_VERSION = '0001_users_quotes_mints';

/** The last one that knows nothing of limits. */
const SHELTERED_VERSION = '0003_usernames';

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
  await migrateTo(OLD_VERSION);
  [holder, reader] = [new pg.Client(url), new pg.Client(url)];
  await Promise.all([holder.connect(), reader.connect()]);
});

afterEach(async () => {
  await Promise.all([holder.end(), reader.end()]);
  await testDatabase.drop();
});

it('waits for whoever reads a table for long, and lets others read meanwhile', async () => {
  await holder.query('begin; lock table quotes in access share mode');
  const told: string[] = [];
  const onProgress = (line: string) => void told.push(line);
  const opening = openDatabase({ kind: 'postgres', url }, () => undefined, onProgress);
  // The reader is behind one wait for the lock after another, and gets through each time.
  for (let turn = 0; turn < 2; turn += 1) {
    await aMigrationWaits('relation');
    await reader.query('select count(*) from quotes');
  }
  await holder.query('commit');
  await (await opening).close();
  await reader.query('select payment_hash from quotes');

  const missing = Object.keys(migrations).filter((name) => name > OLD_VERSION);
  const steps = missing.map(
    (name, index) => `Bringing the tables up to date: ${name} (${index + 1} of ${missing.length})`,
  );
  // Each turn starts from the beginning.
  expect(told.slice(0, 2)).toEqual([steps[0], 'A table is in use; trying again']);
  expect(told.slice(-steps.length)).toEqual(steps);
});

it('keeps the names that users had', async () => {
  const pubkey = 'ab'.repeat(32);
  await holder.query('insert into users (pubkey, name) values ($1, $2)', [pubkey, 'alice']);
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  const { users, usernames } = new Store(database.db);
  expect(await users.findByName('alice')).toMatchObject({ pubkey, name: 'alice' });
  expect(await usernames.find('alice')).toMatchObject({ pubkey, status: 'in_use' });
  await database.close();
});

it('keeps verify urls good that payers have', async () => {
  const tokens = [null, '', 'of no digits', 'ab'.repeat(32), 'ac'.repeat(32)];
  for (const [index, token] of tokens.entries()) {
    await holder.query(
      `insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                           created_at, expires_at, verify_token)
       values ('https://mint.example', $1, $2, $3, 21, 'UNPAID', false, now(), now(), $4)`,
      [`quote ${index}`, 'ab'.repeat(32), `lnbc${index}`, token],
    );
  }
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  const { quotes } = new Store(database.db);
  for (const [index, token] of tokens.entries()) {
    if (token !== null) {
      expect(await quotes.findByVerifyToken(token)).toMatchObject({ request: `lnbc${index}` });
    }
  }
  await database.close();
});

it('lets a process of the old version end what it began', async () => {
  await migrateTo(SHELTERED_VERSION);
  await holder.query(
    `insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                         created_at, expires_at)
     values ('https://mint.example', 'quote', $1, 'lnbc', 21, 'UNPAID', false, now(), now())`,
    ['ab'.repeat(32)],
  );
  // As when a payment is recorded: what is read first is written afterwards.
  await holder.query('begin');
  await holder.query('select 1 from quotes for update');
  const opening = openDatabase({ kind: 'postgres', url }, () => undefined);
  await aMigrationWaits('relation');
  await holder.query(`update quotes set checks = 7`);
  await holder.query('commit');
  await (await opening).close();
  const { rows } = await reader.query('select checks from quotes');
  expect(rows).toEqual([{ checks: 7 }]);
});

it('waits for another process that is migrating, and finds all done', async () => {
  await holder.query(`select pg_advisory_lock(${MIGRATION_LOCK})`);
  const opening = [1, 2].map(() => openDatabase({ kind: 'postgres', url }, () => undefined));
  await aMigrationWaits('advisory');
  await holder.query(`select pg_advisory_unlock(${MIGRATION_LOCK})`);
  for (const database of await Promise.all(opening)) {
    await database.close();
  }
  await reader.query('select payment_hash from quotes');
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
    `select 1 from information_schema.columns where column_name = 'payment_hash'`,
  );
  expect(rows).toEqual([]);
});

async function migrateTo(version: string): Promise<void> {
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }),
  });
  const provider = { getMigrations: async () => migrations };
  const { error } = await new Migrator({ db, provider }).migrateTo(version);
  await db.destroy();
  expect(error).toBeUndefined();
}

/** Resolves when a session of the service waits for a lock of this kind. */
async function aMigrationWaits(locktype: 'relation' | 'advisory'): Promise<void> {
  await eventually(async () => {
    const { rows } = await reader.query(
      `select 1 from pg_locks join pg_stat_activity using (pid)
         where not granted and locktype = $1 and application_name = 'nutpost'
           and datname = current_database()`,
      [locktype],
    );
    expect(rows.length).toBeGreaterThan(0);
  });
}
