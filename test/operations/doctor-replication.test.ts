import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { type PostgresCluster, startPostgresCluster } from '../../scripts/postgres-cluster.ts';
import { openDatabase } from '../../src/database/database.ts';
import { runDoctor } from '../../src/operator/doctor/doctor.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import { TEST_JWT_SECRET } from '../helpers/service/test-environment.ts';

let mint: TestMint;
let primary: PostgresCluster;
let standby: PostgresCluster;
let client: pg.Client;

beforeAll(async () => {
  mint = await TestMint.start();
  primary = await startPostgresCluster({ durable: true });
  await (await openDatabase({ kind: 'postgres', url: primary.url }, () => undefined)).close();
  standby = await startPostgresCluster({ durable: true, primaryUrl: primary.url });
  client = new pg.Client({ connectionString: primary.url });
  await client.connect();
});

afterAll(async () => {
  await client.end();
  await standby.stop();
  await primary.stop();
  await mint.close();
});

it('warns about an asynchronous standby, whatever the rights of the user, and accepts a synchronous one', async () => {
  await client.query(`create role service login;
    grant select, insert, update, delete on all tables in schema public to service`);
  const urlOfRole = new URL(primary.url);
  urlOfRole.username = 'service';
  const urls = [primary.url, urlOfRole.href];
  await expect
    .poll(async () => (await client.query('select from pg_stat_replication')).rowCount)
    .toBe(1);
  for (const url of urls) {
    expect(await runDoctorOn(url)).toContain('warning database.replication');
  }
  await setOnPrimary('synchronous_standby_names', '*');
  for (const url of urls) {
    expect(await runDoctorOn(url)).toContain('ok database.replication');
  }
  await setOnPrimary('synchronous_standby_names', 'another');
  // As a process, which has to exit although a commit does not complete.
  const { code, stdout } = await runNutpostCommand(['doctor', '--json'], createEnv(primary.url));
  expect(JSON.parse(stdout).findings).toContainEqual(
    expect.objectContaining({ level: 'problem', check: 'database.replication' }),
  );
  expect(code).toBe(1);
  await setOnPrimary('synchronous_standby_names', '*');
  await setOnPrimary('synchronous_commit', 'local');
  expect(await runDoctorOn(primary.url)).toContain('warning database.replication');
});

it('reports a standby server and completes the other checks', async () => {
  const codes = await runDoctorOn(standby.url);
  expect(codes.filter((code) => code.startsWith('problem'))).toEqual([
    'problem database.read_only',
  ]);
  const completed = ['ok database.reachable', 'ok database.migrations', 'ok mint.reachable'];
  expect(codes).toEqual(expect.arrayContaining(completed));
});

function createEnv(databaseUrl: string): Record<string, string> {
  return {
    PORT: '0',
    DATABASE_URL: databaseUrl,
    JWT_SECRET: TEST_JWT_SECRET,
    DEFAULT_MINT_URL: mint.url,
    ALLOW_PRIVATE_NETWORKS: 'true',
  };
}

async function runDoctorOn(databaseUrl: string): Promise<string[]> {
  const findings = await runDoctor(() => undefined, createEnv(databaseUrl));
  return findings.map(({ level, check }) => `${level} ${check}`);
}

/** Changes a setting of the primary server, and waits until new connections use it. */
async function setOnPrimary(setting: string, value: string): Promise<void> {
  await client.query(`alter system set ${setting} = '${value}'`);
  await client.query('select pg_reload_conf()');
  await expect
    .poll(async () => (await client.query(`show ${setting}`)).rows[0]?.[setting])
    .toBe(value);
}
