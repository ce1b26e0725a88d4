import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { startPgBouncer } from '../../scripts/pgbouncer.ts';
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

type Target = 'pooler' | 'server';

it.each<[string[], 'transaction' | 'statement' | 'session', Target, Target | null]>([
  [['problem database.pooler'], 'transaction', 'pooler', null],
  [['problem database.pooler'], 'statement', 'pooler', null],
  [['problem database.listen_url'], 'transaction', 'pooler', 'pooler'],
  [['problem database.listen_url'], 'statement', 'pooler', 'pooler'],
  [['problem database.notifications'], 'statement', 'pooler', 'server'],
  [[], 'transaction', 'pooler', 'server'],
  [[], 'session', 'pooler', null],
  [[], 'session', 'server', 'pooler'],
  [[], 'session', 'server', null],
])(
  'reports %j about a pooler in %s mode if DATABASE_URL is the %s and DATABASE_LISTEN_URL is the %s',
  async (findings, mode, target, listenTarget) => {
    const pooler = await startPgBouncer(directUrl, mode);
    onTestFinished(() => pooler.stop());
    const urls = { pooler: pooler.url, server: directUrl };
    const env = {
      DATABASE_URL: urls[target],
      ...(listenTarget && { DATABASE_LISTEN_URL: urls[listenTarget] }),
    };
    expect(await runDoctorOn(env)).toEqual(findings);
  },
);

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
