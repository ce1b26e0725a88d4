import { randomBytes } from 'node:crypto';
import { CompiledQuery } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../scripts/server-process.ts';
import { readConfig } from '../../src/config.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { examineSetup } from '../../src/doctor.ts';
import type { Finding } from '../../src/domain/finding.ts';
import { openLog } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { openDatabase, openToLook } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { eventually } from '../helpers/eventually.ts';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { TEST_JWT_SECRET } from '../helpers/world.ts';

/** `nutpost doctor` on a PostgreSQL server, from before the first start to an upgrade. */

const server = process.env['OPERATIONS_DATABASE_URL'] ?? '';

let mint: TestMint;
let url: string;
let env: Record<string, string>;

beforeAll(async () => {
  mint = await TestMint.start();
  const name = `nutpost_doctor_${randomBytes(6).toString('hex')}`;
  await onServer(`create database ${name} template template0`);
  const location = new URL(server);
  location.pathname = `/${name}`;
  url = location.href;
  const port = await freePort('127.0.0.1');
  env = {
    ...NO_LIMITS,
    PORT: String(port),
    PUBLIC_ORIGINS: `http://localhost:${port}`,
    DATABASE_URL: url,
    JWT_SECRET: TEST_JWT_SECRET,
    DEFAULT_MINT_URL: mint.url,
    ALLOW_PRIVATE_NETWORKS: 'true',
  };
});

afterAll(async () => {
  await onServer(`drop database if exists ${new URL(url).pathname.slice(1)} with (force)`);
  await mint.close();
});

it('a new database, a service that runs, and one that has stopped are told apart', async () => {
  const before = await codes();
  expect(before).toContain('note database.older');
  expect(before).toContain('note listen.free');
  expect(before).toContain('warning origin.unchecked');
  expect(before.filter((code) => code.startsWith('problem'))).toEqual([]);

  const service = await startService(readConfig(env), { log: openLog('silent') });
  const beside = await codes();
  await service.stop();
  expect(beside).toEqual(
    expect.arrayContaining([
      'ok database.reached',
      'ok database.heard',
      'ok database.tables',
      'ok database.processes',
      'ok clock.database',
      'ok listen.here',
      'ok origin.reached',
    ]),
  );
  // The server of the tests is in a hurry; an operator's is not to be.
  expect(beside).toContain('warning database.durability');
  expect(beside.filter((code) => code.startsWith('problem'))).toEqual([]);

  expect(await codes()).toContain('note database.no_process');
});

it('a server that is away, or lets nobody in, is named without the password', async () => {
  const away = `postgres://nutpost:hunter2@127.0.0.1:1/nutpost`;
  const found = await findings({ DATABASE_URL: away });
  const [unreachable] = found.filter(({ code }) => code === 'database.unreachable');
  expect(unreachable).toMatchObject({ level: 'problem' });
  expect(JSON.stringify(found)).not.toContain('hunter2');
  const elsewhere = new URL(server);
  elsewhere.pathname = '/nobody_made_it';
  expect(await codes({ DATABASE_URL: elsewhere.href })).toContain('problem database.unreachable');
});

it('tables of a newer version, and a database that takes no changes or writes times in its own way, are found', async () => {
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  onTestFinished(() => database.close());
  const run = (statement: string) => database.db.executeQuery(CompiledQuery.raw(statement));
  await run(`insert into kysely_migration (name, timestamp) values ('9999_future', 'now')`);
  expect(await codes()).toContain('problem database.newer');
  await run(`delete from kysely_migration where name = '9999_future'`);
  const name = new URL(url).pathname.slice(1);
  await onServer(`alter database ${name} set default_transaction_read_only = on`);
  expect(await codes()).toContain('problem database.read_only');
  await onServer(`alter database ${name} reset default_transaction_read_only`);
  await onServer(`alter database ${name} set datestyle to 'SQL, DMY'`);
  const [failed] = (await findings()).filter(({ level }) => level === 'problem');
  expect(failed).toMatchObject({
    code: 'database.failed',
    what: expect.stringContaining('DateStyle'),
  });
  await onServer(`alter database ${name} reset datestyle`);
  expect(await codes()).toContain('ok database.tables');
});

it('tables of another user, rights that are missing and connections of others are found', async () => {
  const role = `stranger_${randomBytes(4).toString('hex')}`;
  const own = new URL(url);
  own.username = role;
  await onServer(`create role ${role} login`);
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  const run = (statement: string) => database.db.executeQuery(CompiledQuery.raw(statement));
  onTestFinished(async () => {
    await run(`drop owned by ${role}`);
    await run(`drop role ${role}`);
    await database.close();
  });
  const changes = { DATABASE_URL: own.href };
  const asStranger = await codes(changes);
  expect(asStranger).toEqual(
    expect.arrayContaining(['problem database.rights', 'ok mint.reached']),
  );
  await run(`grant select on all tables in schema public to ${role}`);
  expect(await codes(changes)).toContain('problem database.rights');
  await run(`grant select, insert, update, delete on all tables in schema public to ${role}`);
  expect(await codes(changes)).toContain('ok database.tables');

  const looking = await openToLook({ kind: 'postgres', url: own.href }, () => undefined);
  onTestFinished(() => looking.close());
  const others = Array.from({ length: 5 }, () => new pg.Client({ connectionString: url }));
  onTestFinished(async () => {
    await Promise.all(others.map((each) => each.end()));
  });
  await Promise.all(others.map((each) => each.connect()));
  const { examination } = new Store(looking.db);
  const subjects = { mintUrl: mint.url, relays: [] };
  // A server counts its connections a moment after they are made.
  await eventually(async () =>
    expect((await examination.examine(subjects)).usedConnections).toBeGreaterThan(others.length),
  );
});

async function findings(changes: Record<string, string> = {}): Promise<Finding[]> {
  return (await examineSetup(() => undefined, { ...env, ...changes })).flatMap((each) => [
    ...each.findings,
  ]);
}

async function codes(changes: Record<string, string> = {}): Promise<string[]> {
  return (await findings(changes)).map(({ level, code }) => `${level} ${code}`);
}

async function onServer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  await client.query(statement);
  await client.end();
}
