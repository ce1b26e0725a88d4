import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import { openDatabase } from '../../src/database/database.ts';
import { checkPostgres } from '../../src/operator/doctor/check-database.ts';
import { runDoctor } from '../../src/operator/doctor/doctor.ts';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import {
  createOperationsDatabase,
  type TemporaryPostgresDatabase,
} from '../helpers/postgres-database.ts';
import { TEST_JWT_SECRET } from '../helpers/test-environment.ts';

/** What `nutpost doctor` finds wrong with a PostgreSQL server. */

let mint: TestMint;
let database: TemporaryPostgresDatabase;
let client: pg.Client;
let name: string;
let port: number;

beforeAll(async () => {
  mint = await TestMint.start();
  port = await findFreePort('127.0.0.1');
  database = await createOperationsDatabase();
  name = new URL(database.url).pathname.slice(1);
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});

afterAll(async () => {
  await client.end();
  await database.drop();
  await mint.close();
});

it('warns before the first start, and reports the state of migrations afterwards', async () => {
  const before = await codes();
  expect(before).toContain('warning database.migrations');
  expect(before.filter((code) => code.startsWith('problem'))).toEqual([]);

  const opened = await openDatabase({ kind: 'postgres', url: database.url }, () => undefined);
  await opened.close();
  const after = await codes();
  // The server of the tests is tuned for speed.
  expect(after).toContain('warning database.durability');
  expect(after).toContain('ok database.migrations');
  await client.query(
    `insert into kysely_migration (name, timestamp) values ('9999_future', 'now')`,
  );
  expect(await codes()).toContain('problem database.migrations');
  await client.query(`delete from kysely_migration where name = '9999_future'`);
});

it('reports an unreachable server, without the password, and a missing database', async () => {
  for (const url of [
    'postgres://nutpost:hunter2@127.0.0.1:1/nutpost',
    database.url.replace(name, 'missing'),
  ]) {
    const found = await findings(url);
    expect(found.map(toCode)).toContain('problem database.reachable');
    expect(JSON.stringify(found)).not.toContain('hunter2');
  }
});

it('reports a read-only database', async () => {
  await client.query(`alter database ${name} set default_transaction_read_only to on`);
  expect(await codes()).toContain('problem database.read_only');
  await client.query(`alter database ${name} reset default_transaction_read_only`);
  expect(await codes()).not.toContain('problem database.read_only');
});

it('reports a user without the right to read or to write, and checks the rest', async () => {
  const role = `stranger_${randomBytes(4).toString('hex')}`;
  const location = new URL(database.url);
  location.username = role;
  await client.query(`create role ${role} login`);
  onTestFinished(async () => {
    await client.query(`drop owned by ${role}`);
    await client.query(`drop role ${role}`);
  });
  expect(await codes(location.href)).toEqual(
    expect.arrayContaining(['problem database.reachable', 'ok mint.reachable']),
  );
  await client.query(`grant select on all tables in schema public to ${role}`);
  expect(await codes(location.href)).toContain('problem database.read_only');
  await client.query(`grant insert, update, delete on all tables in schema public to ${role}`);
  expect((await codes(location.href)).filter((code) => code.startsWith('problem'))).toEqual([]);
});

it('reports a server whose notifications do not arrive', async () => {
  const opened = await openDatabase({ kind: 'postgres', url: database.url }, () => undefined);
  onTestFinished(() => opened.close());
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const listen = async () => {
    // After the timeout has started.
    setImmediate(() => vi.advanceTimersByTime(3_000));
    return { isConnected: true, close: async () => undefined };
  };
  const examination = await checkPostgres({ ...opened, listen }, mint.url, Date.now);
  expect(examination.findings.map(toCode)).toContain('problem database.notifications');
});

function findings(url: string) {
  return runDoctor(() => undefined, {
    ...NO_LIMITS,
    PORT: `${port}`,
    DATABASE_URL: url,
    JWT_SECRET: TEST_JWT_SECRET,
    DEFAULT_MINT_URL: mint.url,
    ALLOW_PRIVATE_NETWORKS: 'true',
  });
}

async function codes(url = database.url): Promise<string[]> {
  return (await findings(url)).map(toCode);
}

function toCode({ level, check }: { level: string; check: string }): string {
  return `${level} ${check}`;
}
