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
