import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { findFreePort } from '../../scripts/server-process.ts';
import { createOperationsDatabase } from '../helpers/database/temporary-postgres-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';
import { TEST_JWT_SECRET } from '../helpers/service/test-environment.ts';

const HOST = '127.0.0.1';
const SOCKET_COUNT = 100;

/** A load balancer notices up to this much later that a process is not ready. */
const HEALTH_CHECK_INTERVAL_MS = 500;

/** From the signal to stop. */
const MAX_STOP_MS = 10_000;

it('stops without failing a request, sends an error to every socket, and releases its mint leases', async () => {
  const mint = await startTestMint();
  const { url: databaseUrl, drop } = await createOperationsDatabase();
  const database = new pg.Client({ connectionString: databaseUrl });
  await database.connect();
  onTestFinished(async () => {
    await database.end();
    await drop();
  });
  const ports = [await findFreePort(HOST), await findFreePort(HOST)] as const;
  const settings = {
    DATABASE_URL: databaseUrl,
    JWT_SECRET: TEST_JWT_SECRET,
    PUBLIC_ORIGINS: ports.map((port) => `http://${HOST}:${port}`).join(','),
    DEFAULT_MINT_URL: mint.url,
    STOP_DELAY_SECONDS: '2',
  };
  const startProcess = (port: number) =>
    new NutpostProcess('serve', { ...settings, PORT: `${port}` });
  const stoppingProcess = startProcess(ports[0]);
  const stoppingUrl = await stoppingProcess.waitForUrl();
  const wallet = new RecipientClient(stoppingUrl);
  const invoices = [await requestInvoice(stoppingUrl, wallet)];
  const [stoppingProcessId] = await eventually(async () => {
    const leaseHolders = await readLeaseHolders(database);
    expect(leaseHolders).toHaveLength(1);
    return leaseHolders;
  });
  const remainingUrl = await startProcess(ports[1]).waitForUrl();
  const sockets = await Promise.all(
    Array.from({ length: SOCKET_COUNT }, () => wallet.openSocket()),
  );

  let balancerTarget = stoppingUrl;
  let isOver = false;
  const requests: Promise<void>[] = [];
  const sendingRequests = (async () => {
    for (let count = 0; !isOver; count += 1) {
      requests.push(
        count % 10 === 0
          ? requestInvoice(balancerTarget, wallet).then((invoice) => void invoices.push(invoice))
          : expectDiscovery(balancerTarget, wallet),
      );
      await delay(20);
    }
  })();
  const balancing = (async () => {
    do {
      await delay(HEALTH_CHECK_INTERVAL_MS);
    } while ((await requestJson(stoppingUrl, '/health/ready').catch(() => null))?.status === 200);
    balancerTarget = remainingUrl;
  })();
  await delay(2 * HEALTH_CHECK_INTERVAL_MS);

  const signalledAtMs = performance.now();
  let hasExited = false;
  const exit = stoppingProcess.stop().finally(() => {
    hasExited = true;
  });
  await eventually(async () =>
    expect(await readLeaseHolders(database)).not.toContain(stoppingProcessId),
  );
  expect(hasExited).toBe(false);
  for (const socket of sockets) {
    expect(await socket.nextMessage()).toMatchObject({ type: 'error' });
    await socket.waitForClose();
  }
  expect(await exit).toEqual({ code: 0, signal: null, stderr: '' });
  expect(performance.now() - signalledAtMs).toBeLessThan(MAX_STOP_MS);
  await balancing;
  await delay(HEALTH_CHECK_INTERVAL_MS);
  isOver = true;
  await sendingRequests;
  await Promise.all(requests);

  for (const invoice of invoices) {
    mint.pay(invoice);
  }
  await eventually(async () => {
    const listed = await wallet.withOrigin(remainingUrl).listPaidQuotes();
    expect(listed.map((quote) => quote['request']).toSorted()).toEqual(invoices.toSorted());
  });
});

async function requestInvoice(base: string, { npub }: RecipientClient): Promise<string> {
  const { status, body } = await requestJson(base, `/.well-known/lnurlp/${npub}?amount=21000`);
  expect({ status, pr: body.pr }).toEqual({ status: 200, pr: expect.any(String) });
  return body.pr;
}

async function expectDiscovery(base: string, { npub }: RecipientClient): Promise<void> {
  expect((await requestJson(base, `/.well-known/lnurlp/${npub}`)).status).toBe(200);
}

async function readLeaseHolders(database: pg.Client): Promise<string[]> {
  const { rows } = await database.query<{ process_id: string }>(
    'select process_id from mint_leases where process_id is not null',
  );
  return rows.map(({ process_id }) => process_id);
}
