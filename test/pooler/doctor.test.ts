import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { type PgBouncer, startPgBouncer } from '../../scripts/pgbouncer.ts';
import { runDoctor } from '../../src/operator/doctor/doctor.ts';
import { requirePoolerUrl } from '../helpers/database/pooler.ts';
import { createTemporaryPostgresDatabase } from '../helpers/database/temporary-postgres-database.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database/test-database.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { TEST_JWT_SECRET } from '../helpers/service/test-environment.ts';

/** Tests what `nutpost doctor` reports about connection poolers. */

const serverUrl = process.env['TEST_DATABASE_URL'] ?? '';
let mint: TestMint;
let testDatabase: TestDatabase;
let pathname: string;
let directUrl: string;
let poolerUrl: string;

beforeAll(async () => {
  mint = await TestMint.start();
  testDatabase = await createTestDatabase();
  ({ pathname } = new URL('url' in testDatabase.location ? testDatabase.location.url : ''));
  directUrl = new URL(pathname, serverUrl).href;
  poolerUrl = new URL(pathname, requirePoolerUrl()).href;
});

afterAll(async () => {
  await testDatabase.drop();
  await mint.close();
});

describe.each(['transaction', 'statement'] as const)('a pooler in %s mode', (poolMode) => {
  let pooler: PgBouncer;
  let url: string;

  beforeAll(async () => {
    pooler = await startPgBouncer(directUrl, poolMode);
    ({ url } = pooler);
  });

  afterAll(() => pooler.stop());

  it('is a problem if DATABASE_URL leads to it and DATABASE_LISTEN_URL is not set', async () => {
    expect(await runDoctorOn({ DATABASE_URL: url })).toEqual(['problem database.pooler']);
  });

  it('is a problem if DATABASE_LISTEN_URL leads to it', async () => {
    const env = { DATABASE_URL: url, DATABASE_LISTEN_URL: url };
    expect(await runDoctorOn(env)).toEqual(['problem database.listen_url']);
  });
});

it('reports a pooler in statement mode although DATABASE_LISTEN_URL is set', async () => {
  const pooler = await startPgBouncer(directUrl, 'statement');
  onTestFinished(() => pooler.stop());
  const env = { DATABASE_URL: pooler.url, DATABASE_LISTEN_URL: directUrl };
  expect(await runDoctorOn(env)).toEqual(['problem database.notifications']);
});

it('reports a pooler in transaction mode while other clients use it', async () => {
  const clients = Array.from({ length: 5 }, () => testDatabase.open());
  const databases = await Promise.all(clients);
  const stop = new AbortController();
  const queries = databases.map(async ({ db }) => {
    while (!stop.signal.aborted) {
      await db.selectFrom('users').selectAll().execute();
    }
  });
  onTestFinished(async () => {
    stop.abort();
    await Promise.all(queries);
    await Promise.all(databases.map((database) => database.close()));
  });
  for (let run = 0; run < 10; run += 1) {
    expect(await runDoctorOn({ DATABASE_URL: poolerUrl })).toEqual(['problem database.pooler']);
  }
});

it('accepts a pooler in transaction mode with DATABASE_LISTEN_URL', async () => {
  const env = { DATABASE_URL: poolerUrl, DATABASE_LISTEN_URL: directUrl };
  expect(await runDoctorOn(env)).toEqual([]);
});

it('accepts a pooler in session mode, and a server without a pooler', async () => {
  const pooler = await startPgBouncer(directUrl, 'session');
  onTestFinished(() => pooler.stop());
  expect(await runDoctorOn({ DATABASE_URL: pooler.url })).toEqual([]);
  expect(await runDoctorOn({ DATABASE_URL: poolerUrl, DATABASE_LISTEN_URL: pooler.url })).toEqual(
    [],
  );
  expect(await runDoctorOn({ DATABASE_URL: directUrl })).toEqual([]);
});

it('reports a DATABASE_LISTEN_URL that leads to another database or that cannot be reached', async () => {
  const other = await createTemporaryPostgresDatabase(serverUrl, 'template0');
  onTestFinished(() => other.drop());
  for (const listenUrl of [other.url, 'postgres://nutpost@127.0.0.1:1/nutpost']) {
    const env = { DATABASE_URL: poolerUrl, DATABASE_LISTEN_URL: listenUrl };
    expect(await runDoctorOn(env)).toEqual(['problem database.listen_url']);
  }
});

async function runDoctorOn(databaseEnv: Record<string, string>): Promise<string[]> {
  const findings = await runDoctor(() => undefined, {
    ...DISABLED_LIMITS_ENV,
    ...databaseEnv,
    PORT: '0',
    JWT_SECRET: TEST_JWT_SECRET,
    DEFAULT_MINT_URL: mint.url,
    ALLOW_PRIVATE_NETWORKS: 'true',
  });
  return (
    findings
      .filter(({ level, check }) => level !== 'ok' && check.startsWith('database.'))
      .map(({ level, check }) => `${level} ${check}`)
      // The PostgreSQL server of the tests runs without fsync, because that is faster.
      .filter((code) => code !== 'warning database.durability')
  );
}
