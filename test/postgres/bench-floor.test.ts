import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openFloorDatabase } from '../../bench/processes/floor-database.ts';
import { createBareDatabase, type TestDatabase } from '../helpers/database.ts';

let database: TestDatabase;

beforeEach(async () => {
  database = await createBareDatabase();
  if (database.location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  vi.stubEnv('DATABASE_URL', database.location.url);
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await database.drop();
});

it('reads what the database answers as the service does', async () => {
  const floor = await openFloorDatabase();

  const { rows } = await floor.query('select $1::bigint as amount, $2::timestamptz as paid_at', [
    21,
    '2026-11-22T13:00:00.250Z',
  ]);

  expect(rows).toEqual([{ amount: 21, paid_at: new Date('2026-11-22T13:00:00.250Z') }]);
});

it.each([
  ['waits for syncs where the service does', true, 'on'],
  ['does not where the service does not', false, 'off'],
])('%s', async (_what, waitsForSync, synchronous_commit) => {
  // As on a server in use; the one of the tests syncs nothing.
  const name = new URL(process.env['DATABASE_URL'] ?? '').pathname.slice(1);
  const before = await openFloorDatabase();
  await before.query(`alter database "${name}" set synchronous_commit = on`, []);

  const floor = await openFloorDatabase({ waitsForSync });

  expect((await floor.query('show synchronous_commit', [])).rows).toEqual([{ synchronous_commit }]);
});
