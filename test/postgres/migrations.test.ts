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
  await holder.query(`update quotes set request = 'paid'`);
  await holder.query('commit');
  await (await opening).close();
  const { rows } = await reader.query('select request from quotes');
  expect(rows).toEqual([{ request: 'paid' }]);
});

it('keeps watching what was watched, and for how long', async () => {
  await migrateTo('0008_room_for_counters');
  const insert = (quoteId: string, values: Record<string, string | number | null>) => {
    const row = {
      mint_url: 'https://mint.example',
      quote_id: quoteId,
      pubkey: 'ab'.repeat(32),
      request: 'lnbc',
      amount_sat: 21,
      locked: 'false',
      created_at: '2026-08-01T12:00:00Z',
      expires_at: '2026-08-01T13:00:00Z',
      comment: 'thanks',
      ...values,
    };
    const places = Object.keys(row).map((_, index) => `$${index + 1}`);
    return holder.query(
      `insert into quotes (${Object.keys(row).join(', ')}) values (${places.join(', ')})`,
      Object.values(row),
    );
  };
  const next_check_at = '2026-08-01T12:00:04Z';
  const paid = { paid_at: '2026-08-01T12:00:05Z', paid_seq: 1 };
  await insert('unpaid', { state: 'UNPAID', next_check_at });
  const early = { expires_at: '2026-07-01T00:00:00Z' };
  await insert('with an expiry before its creation', { state: 'UNPAID', next_check_at, ...early });
  await insert('expired', { state: 'EXPIRED' });
  await insert('paid', { state: 'PAID', next_check_at, ...paid });
  await insert('left uncollected', { state: 'PAID', ...paid, paid_seq: 2 });
  await holder.query(
    `insert into mints (url, info, fetched_at, learnt_limits) values ('https://m.example', '{}', now(), '{"create": {}}')`,
  );
  await (await openDatabase({ kind: 'postgres', url }, () => undefined)).close();

  const { rows } = await reader.query(
    'select quote_id, watch_until, comment, address_group from quotes order by id',
  );
  expect(rows).toEqual(
    [
      ['unpaid', '2026-08-02T13:00:00Z', 'thanks'],
      ['with an expiry before its creation', '2026-08-02T12:00:00Z', 'thanks'],
      ['expired', null, null],
      ['paid', '2026-08-08T12:00:05Z', 'thanks'],
      ['left uncollected', null, 'thanks'],
    ].map(([quote_id, until, comment]) => ({
      quote_id,
      watch_until: until == null ? null : new Date(until),
      comment,
      address_group: null,
    })),
  );
  const limits = await reader.query('select rate_limits from mints');
  expect(limits.rows).toEqual([{ rate_limits: null }]);
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
