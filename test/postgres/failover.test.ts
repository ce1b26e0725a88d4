import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { type PostgresCluster, startPostgresCluster } from '../../scripts/postgres-cluster.ts';
import { startService } from '../../src/service.ts';
import {
  createTemporaryPostgresDatabase,
  runStatement,
} from '../helpers/database/temporary-postgres-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { hasLevel, LogCapture } from '../helpers/service/log-capture.ts';
import { createTestConfig } from '../helpers/service/test-environment.ts';

/** Starting clusters and services takes seconds, and longer on a busy machine. */
const TEST_TIMEOUT_MS = 120_000;

/** The service may log that the database, the LISTEN connection and each background job failed, but not each attempt. */
const MAX_WARNINGS = 20;

const CONCURRENT_REQUESTS = 30;

let cluster: PostgresCluster;

beforeAll(async () => {
  cluster = await startPostgresCluster();
}, TEST_TIMEOUT_MS);

afterAll(() => cluster.stop());

it(
  'uses no connection to a server that has become read-only, and continues when the server is writable again',
  async () => {
    const { config, mint } = await createConfig();
    const logs = new LogCapture('info');
    const service = await startService(config, { log: logs.log });
    onTestFinished(() => service.stop());
    const wallet = new RecipientClient(service.publicOrigin);
    const socket = await wallet.openSocket();
    const invoicePath = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
    const { pr, verify } = (await requestJson(service.url, invoicePath)).body;
    const requestReadiness = () => requestJson(service.url, '/health/ready');
    expect((await requestReadiness()).body.status).toBe('ready');

    await setReadOnly(true);
    // Reads fail, too, because the lists of a standby may be stale.
    await eventually(async () => {
      const response = await wallet.get('/api/v2/wallet/quotes');
      expect(response).toMatchObject({ status: 503, body: { error: true } });
      expect(response.headers.get('retry-after')).toMatch(/^[1-9]$/);
    });
    await eventually(async () =>
      expect(await requestReadiness()).toMatchObject({
        status: 503,
        body: { checks: { database: 'failing', listen: 'failing' } },
      }),
    );
    const error = { error: true, code: 'database_unavailable' };
    for (const [path, status, body] of [
      [invoicePath, 503, { status: 'ERROR' }],
      [new URL(verify).pathname, 503, { status: 'ERROR' }],
      // NIP-05 clients expect status 200.
      ['/.well-known/nostr.json?name=alice', 200, error],
    ] as const) {
      expect(await requestJson(service.url, path)).toMatchObject({ status, body });
    }
    expect((await requestJson(service.url, '/health/live')).status).toBe(200);
    // Quote sockets need no database, so wallets can stay connected.
    await (await wallet.openSocket()).close();
    const page = await fetch(`${service.url}/nobody`, { headers: { accept: 'text/html' } });
    expect(page.status).toBe(503);
    expect(await page.text()).toContain('Not available right now');
    mint.pay(pr);

    await setReadOnly(false);
    await eventually(async () => expect((await requestReadiness()).body.status).toBe('ready'));
    expect(await socket.nextMessage()).toMatchObject({ type: 'update' });
    expect(await wallet.listPaidQuotes()).toMatchObject([{ request: pr }]);
    await socket.close();
    expect(logs.lines.filter((line) => hasLevel(line, 'error'))).toEqual([]);
    const warnings = logs.lines.filter((line) => hasLevel(line, 'warn'));
    expect(warnings.length).toBeLessThan(MAX_WARNINGS);
  },
  TEST_TIMEOUT_MS,
);

it(
  'does not start with a read-only server',
  async () => {
    const { config } = await createConfig();
    await setReadOnly(true);
    onTestFinished(() => setReadOnly(false));
    await expect(startService(config, { log: new LogCapture('info').log })).rejects.toThrow(
      'DATABASE_URL: the database cannot be reached (the server is read-only).',
    );
  },
  TEST_TIMEOUT_MS,
);

it(
  'delays requests while the server restarts, instead of rejecting them',
  async () => {
    const { config } = await createConfig();
    const service = await startService(config, { log: new LogCapture('info').log });
    onTestFinished(() => service.stop());
    const wallet = new RecipientClient(service.publicOrigin);
    const requestTogether = () =>
      Promise.all(
        Array.from({ length: CONCURRENT_REQUESTS }, () => wallet.get('/api/v2/wallet/quotes')),
      );
    // Opens all connections of the pool.
    await requestTogether();

    await cluster.halt('fast');
    const responses = requestTogether();
    await cluster.resume();

    const statuses = (await responses).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200]));
  },
  TEST_TIMEOUT_MS,
);

async function createConfig() {
  const mint = await startTestMint({ hasWebSocket: true });
  const { url } = await createTemporaryPostgresDatabase(cluster.url, 'template0');
  return { mint, config: createTestConfig(mint.url, { DATABASE_URL: url }) };
}

async function setReadOnly(isReadOnly: boolean): Promise<void> {
  const setting = `default_transaction_read_only = ${isReadOnly}`;
  await runStatement(cluster.url, `alter system set ${setting}`);
  await runStatement(cluster.url, 'select pg_reload_conf()');
}
