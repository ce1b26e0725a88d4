import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import { openDatabase } from '../../src/database/database.ts';
import { checkNotifications } from '../../src/operator/doctor/check-database.ts';
import { runDoctor } from '../../src/operator/doctor/doctor.ts';
import {
  createOperationsDatabase,
  type TemporaryPostgresDatabase,
} from '../helpers/database/temporary-postgres-database.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { TEST_JWT_SECRET } from '../helpers/service/test-environment.ts';

let mint: TestMint;
let database: TemporaryPostgresDatabase;
let client: pg.Client;
let databaseName: string;
let servicePort: number;

beforeAll(async () => {
  mint = await TestMint.start();
  servicePort = await findFreePort('127.0.0.1');
  database = await createOperationsDatabase();
  databaseName = new URL(database.url).pathname.slice(1);
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});

afterAll(async () => {
  await client.end();
  await database.drop();
  await mint.close();
});

it('warns about missing migrations, accepts current migrations, and warns about unknown migrations', async () => {
  const beforeMigration = await runDoctorForCodes();
  expect(beforeMigration).toContain('warning database.migrations');
  expect(beforeMigration.join()).not.toContain('problem');

  await (await openDatabase({ kind: 'postgres', url: database.url }, () => undefined)).close();
  const afterMigration = await runDoctorForCodes();
  // The PostgreSQL server of the tests runs without fsync, because that is faster.
  expect(afterMigration).toContain('warning database.durability');
  expect(afterMigration).toContain('ok database.migrations');
  await client.query(
    `insert into kysely_migration (name, timestamp) values ('9999_future', 'now')`,
  );
  expect(await runDoctorForCodes()).toContain('warning database.migrations');
  await client.query(`delete from kysely_migration where name = '9999_future'`);
});

it('reports an unreachable server and a missing database, without the password', async () => {
  for (const url of [
    'postgres://nutpost:hunter2@127.0.0.1:1/nutpost',
    database.url.replace(databaseName, 'missing'),
  ]) {
    const findings = await runDoctorOn(url);
    expect(findings.map(toCode)).toContain('problem database.reachable');
    expect(JSON.stringify(findings)).not.toContain('hunter2');
  }
});

it('reports a database user without the right to read or write, and still checks the mint', async () => {
  const role = `stranger_${randomBytes(4).toString('hex')}`;
  const urlOfRole = new URL(database.url);
  urlOfRole.username = role;
  await client.query(`create role ${role} login`);
  onTestFinished(async () => {
    await client.query(`drop owned by ${role}`);
    await client.query(`drop role ${role}`);
  });
  expect(await runDoctorForCodes(urlOfRole.href)).toEqual(
    expect.arrayContaining(['problem database.reachable', 'ok mint.reachable']),
  );
  await client.query(`grant select on all tables in schema public to ${role}`);
  expect(await runDoctorForCodes(urlOfRole.href)).toContain('problem database.read_only');
  await client.query(`grant insert, update, delete on all tables in schema public to ${role}`);
  expect((await runDoctorForCodes(urlOfRole.href)).join()).not.toContain('problem');
});

it('reports a server whose notifications do not arrive', async () => {
  const opened = await openDatabase({ kind: 'postgres', url: database.url }, () => undefined);
  onTestFinished(() => opened.close());
  const listen = async () => ({ isConnected: true, close: async () => undefined });
  const finding = await checkNotifications({ ...opened, listen });
  expect(toCode(finding)).toBe('problem database.notifications');
});

function runDoctorOn(databaseUrl: string) {
  return runDoctor(() => undefined, {
    ...DISABLED_LIMITS_ENV,
    PORT: `${servicePort}`,
    DATABASE_URL: databaseUrl,
    JWT_SECRET: TEST_JWT_SECRET,
    DEFAULT_MINT_URL: mint.url,
    ALLOW_PRIVATE_NETWORKS: 'true',
  });
}

async function runDoctorForCodes(url = database.url): Promise<string[]> {
  return (await runDoctorOn(url)).map(toCode);
}

function toCode({ level, check }: { level: string; check: string }): string {
  return `${level} ${check}`;
}
