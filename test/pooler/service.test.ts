import { sql } from 'kysely';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { startPgBouncer } from '../../scripts/pgbouncer.ts';
import { startPostgresCluster } from '../../scripts/postgres-cluster.ts';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { createDatabaseWithAlice } from '../helpers/database/database-with-alice.ts';
import { listServerConnections, requirePoolerUrl } from '../helpers/database/pooler.ts';
import {
  createTestDatabase,
  createUnmigratedDatabase,
  openTestDatabase,
  type TestDatabase,
  toDatabaseEnv,
} from '../helpers/database/test-database.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RequestRepeater } from '../helpers/network/request-repeater.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { hasLevel, LogCapture } from '../helpers/service/log-capture.ts';
import { NutpostProcess, runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import {
  createTestConfig,
  TEST_JWT_SECRET,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

/** The connections of the pooler to each database (scripts/pgbouncer.ts). */
const POOL_SIZE = 10;

const environment = useTestEnvironment();

it('uses only connections of the pooler, except for LISTEN', async () => {
  const wallet = environment.newWallet();
  const socket = await wallet.openSocket();
  environment.mint.pay((await environment.requestInvoice(wallet, 21)).pr);
  expect((await socket.nextMessage()).type).toBe('update');
  await socket.close();
  const prepared = await createDatabaseWithAlice();
  onTestFinished(() => prepared.remove());
  const url = await new NutpostProcess('serve', prepared.env).waitForUrl();
  expect((await requestJson(url, '/health/ready')).status).toBe(200);

  const databases = [
    await readDatabaseName(environment.database),
    new URL(prepared.env['DATABASE_LISTEN_URL'] ?? '').pathname.slice(1),
  ];
  for (const database of databases) {
    const connections = await listClientConnections(database);
    const ofListeners = connections.filter(({ application }) => application.endsWith('listening'));
    expect(ofListeners).toHaveLength(1);
    const pooled = (await listServerConnections(requirePoolerUrl()))
      .filter((connection) => connection.database === database)
      .map((connection) => connection.local_port);
    expect(pooled.length).toBeGreaterThan(0);
    const others = connections.filter((connection) => !ofListeners.includes(connection));
    expect(others.filter(({ port }) => !pooled.includes(port))).toEqual([]);
  }
});

it('shares a server connection between clients, and prepares no statements', async () => {
  const { testDatabase, database } = await openTestDatabase();
  const other = await testDatabase.open();
  onTestFinished(() => other.close());
  const readProcessId = async ({ db }: Database) => {
    const { rows } = await sql<{ id: number }>`
      select pg_backend_pid() as id where ${1}::int = 1`.execute(db);
    return rows[0]?.id;
  };
  const processId = await readProcessId(database);
  expect(await readProcessId(other)).toBe(processId);
  const { rows } = await sql`select * from pg_prepared_statements`.execute(database.db);
  expect(rows).toEqual([]);
});

it('sends an update for a payment to the sockets of each process', async () => {
  const testDatabase = await createTestDatabase();
  onTestFinished(() => testDatabase.drop());
  const mint = await startTestMint();
  const first = await startServiceOn(testDatabase, mint.url);
  const second = await startServiceOn(testDatabase, mint.url);
  const wallet = new RecipientClient(first.publicOrigin);
  const sockets = [
    await wallet.openSocket(),
    await wallet.withOrigin(second.publicOrigin).openSocket(),
  ];
  for (const { url } of [first, second]) {
    const { body } = await requestJson(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
    mint.pay(body.pr);
    const [atFirst, atSecond] = await Promise.all(sockets.map((socket) => socket.nextMessage()));
    expect(atFirst).toMatchObject({ type: 'update' });
    expect(atSecond).toEqual(atFirst);
  }
  await Promise.all(sockets.map((socket) => socket.close()));
});

it('migrates once if several processes start', async () => {
  const unmigrated = await createUnmigratedDatabase();
  onTestFinished(() => unmigrated.drop());
  const env = { ...toDatabaseEnv(unmigrated.location), JWT_SECRET: TEST_JWT_SECRET };
  const processes = Array.from({ length: 3 }, () => new NutpostProcess('migrate', env));
  for (const process of processes) {
    expect(await process.waitForExit()).toEqual({ code: 0, signal: null, stderr: '' });
  }
});

it('runs the operator commands', async () => {
  const prepared = await createDatabaseWithAlice();
  onTestFinished(() => prepared.remove());
  for (const command of ['user show alice', 'name show alice', 'trace alice', 'treasury']) {
    expect(await runNutpostCommand(command.split(' '), prepared.env)).toMatchObject({ code: 0 });
  }
  const { code, stdout: archive } = await runNutpostCommand(['export'], prepared.env);
  expect(code).toBe(0);
  const target = await createTestDatabase();
  onTestFinished(() => target.drop());
  const targetEnv = { ...prepared.env, ...toDatabaseEnv(target.location) };
  expect(await runNutpostCommand(['import'], targetEnv, archive)).toMatchObject({ code: 0 });
  expect(await runNutpostCommand(['name', 'show', 'alice'], targetEnv)).toMatchObject({ code: 0 });
});

it('reports that DATABASE_LISTEN_URL cannot be reached', async () => {
  const { location, drop } = await createTestDatabase();
  onTestFinished(drop);
  const env = {
    ...toDatabaseEnv(location),
    DATABASE_LISTEN_URL: 'postgres://nutpost@127.0.0.1:1/nutpost',
    JWT_SECRET: TEST_JWT_SECRET,
  };
  expect(await new NutpostProcess('serve', env).waitForExit()).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^DATABASE_LISTEN_URL: the database cannot be reached \(.+\)\.\n$/,
    ),
  });
});

it.each([
  ['default_transaction_isolation', 'serializable', 'read committed'],
  ['lock_timeout', '100ms', '0'],
])('does not start if %s is %s for all clients of the pooler', async (setting, value, required) => {
  const testDatabase = await createTestDatabase();
  onTestFinished(() => testDatabase.drop());
  const databaseEnv = toDatabaseEnv(testDatabase.location);
  const env = { ...databaseEnv, JWT_SECRET: TEST_JWT_SECRET };
  const directUrl = databaseEnv['DATABASE_LISTEN_URL'] ?? '';
  const client = new pg.Client(directUrl);
  await client.connect();
  const name = new URL(directUrl).pathname.slice(1);
  await client.query(`alter database ${name} set ${setting} = '${value}'`);
  await client.end();
  expect(await new NutpostProcess('serve', env).waitForExit()).toEqual({
    code: 1,
    signal: null,
    stderr:
      `DATABASE_URL: ${setting} is '${value}'. Set it for the role:` +
      ` alter role ... set ${setting} = '${required}'.\n`,
  });
});

it('rejects requests as temporary failures while the server is down, and recovers', async () => {
  const cluster = await startPostgresCluster({ durable: true });
  onTestFinished(() => cluster.stop());
  const pooler = await startPgBouncer(cluster.url);
  onTestFinished(() => pooler.stop());
  const mint = await startTestMint();
  const env = { DATABASE_URL: pooler.url, DATABASE_LISTEN_URL: cluster.url };
  const logs = new LogCapture('info');
  const service = await startService(createTestConfig(mint.url, env), { log: logs.log });
  onTestFinished(() => service.stop());
  const wallet = new RecipientClient(service.publicOrigin);
  const requestInvoice = () =>
    requestJson(service.url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
  const payer = new RequestRepeater(
    {
      status: 503,
      body: {
        status: 'ERROR',
        reason: 'The service is temporarily unavailable. Please try again.',
      },
    },
    requestInvoice,
  );
  await payer.waitForSuccesses(5);
  const { body } = await requestInvoice();
  await cluster.halt('immediate');
  await payer.waitForFailures(20);
  mint.pay(body.pr);
  await cluster.resume();
  await payer.waitForSuccesses(5);
  await payer.stop();
  await expect.poll(() => wallet.listPaidQuotes()).toHaveLength(1);
  expect(logs.lines.filter((line) => hasLevel(line, 'error'))).toEqual([]);
});

it('stays ready while other clients use all connections of the pooler', async () => {
  const { testDatabase } = await openTestDatabase();
  const mint = await startTestMint();
  const service = await startServiceOn(testDatabase, mint.url);
  expect((await requestJson(service.url, '/health/ready')).body.status).toBe('ready');
  const { DATABASE_URL: url } = toDatabaseEnv(testDatabase.location);
  const others = Array.from({ length: POOL_SIZE }, () => new pg.Client(url));
  onTestFinished(async () => {
    await Promise.all(others.map((client) => client.end()));
  });
  for (const client of others) {
    await client.connect();
    await client.query('begin');
  }
  const wallet = new RecipientClient(service.publicOrigin);
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  expect((await requestJson(service.url, path)).status).toBe(503);
  expect((await requestJson(service.url, '/health/ready')).body.status).toBe('ready');
  for (const client of others) {
    await client.query('rollback');
  }
  await expect.poll(async () => (await requestJson(service.url, path)).status).toBe(200);
});

async function startServiceOn(testDatabase: TestDatabase, mintUrl: string): Promise<Service> {
  const service = await startService(
    createTestConfig(mintUrl, toDatabaseEnv(testDatabase.location)),
    {
      log: createLogger('silent'),
    },
  );
  onTestFinished(() => service.stop());
  return service;
}

async function readDatabaseName({ db }: Database): Promise<string> {
  const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(db);
  return rows[0]?.name ?? '';
}

async function listClientConnections(
  database: string,
): Promise<{ application: string; port: number }[]> {
  const client = new pg.Client({ connectionString: process.env['TEST_DATABASE_URL'] });
  await client.connect();
  try {
    const { rows } = await client.query(
      `select application_name as application, client_port as port from pg_stat_activity
        where datname = $1`,
      [database],
    );
    return rows;
  } finally {
    await client.end();
  }
}
