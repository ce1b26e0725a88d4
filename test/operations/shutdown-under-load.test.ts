import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { createOperationsDatabase } from '../helpers/postgres-database.ts';
import { TEST_JWT_SECRET } from '../helpers/test-environment.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';

/** One of two processes is stopped while wallets and payers use it. */

const HOST = '127.0.0.1';
const SOCKETS = 100;
const REQUESTS_EVERY_MS = 20;

/** A load balancer detects late that a process is not ready. */
const CHECK_EVERY_MS = 500;

/** Measured from the signal. */
const TAKEOVER_WITHIN_MS = 2_000;
const STOP_WITHIN_MS = 10_000;

it('interrupts no request, sends every socket the reason for closing, and releases its mints', async () => {
  const mint = await TestMint.start();
  const { url: databaseUrl, drop } = await createOperationsDatabase();
  const database = new pg.Client({ connectionString: databaseUrl });
  await database.connect();
  onTestFinished(async () => {
    await database.end();
    await drop();
    await mint.close();
  });
  const ports = [await findFreePort(HOST), await findFreePort(HOST)] as const;
  const settings = {
    DATABASE_URL: databaseUrl,
    JWT_SECRET: TEST_JWT_SECRET,
    PUBLIC_ORIGINS: ports.map((port) => `http://${HOST}:${port}`).join(','),
    DEFAULT_MINT_URL: mint.url,
    STOP_DELAY_SECONDS: '2',
  };
  const start = (port: number) => new NutpostProcess('serve', { ...settings, PORT: `${port}` });
  const leaving = start(ports[0]);
  const first = await leaving.waitUntilListening();
  const wallet = new TestWallet(first);
  const invoices = [await askInvoice(first, wallet)];
  const [owner] = await vi.waitFor(async () => {
    const found = await ownersOf(database);
    expect(found).toHaveLength(1);
    return found;
  });
  const second = await start(ports[1]).waitUntilListening();
  const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => wallet.openSocket()));

  let target = first;
  let isOver = false;
  const asking: Promise<void>[] = [];
  const paying = (async () => {
    for (let turn = 0; !isOver; turn += 1) {
      const where = target;
      asking.push(
        turn % 10 === 0
          ? askInvoice(where, wallet).then((invoice) => void invoices.push(invoice))
          : expectAnswer(where, `/.well-known/lnurlp/${wallet.npub}`),
      );
      await delay(REQUESTS_EVERY_MS);
    }
  })();
  const balancing = (async () => {
    do {
      await delay(CHECK_EVERY_MS);
    } while ((await requestJson(first, '/health/ready').catch(() => null))?.status === 200);
    target = second;
  })();
  await delay(2 * CHECK_EVERY_MS);

  const toldAtMs = performance.now();
  const ending = leaving.stop();
  await vi.waitFor(async () => expect(await ownersOf(database)).not.toContain(owner), {
    timeout: TAKEOVER_WITHIN_MS,
    interval: 20,
  });
  for (const socket of sockets) {
    expect(await socket.nextMessage()).toMatchObject({ type: 'error' });
    await socket.waitForClose();
  }
  expect(await ending).toEqual({ code: 0, signal: null, stderr: '' });
  expect(performance.now() - toldAtMs).toBeLessThan(STOP_WITHIN_MS);
  await balancing;
  await delay(CHECK_EVERY_MS);
  isOver = true;
  await paying;
  await Promise.all(asking);

  // Every invoice that was returned is paid and listed.
  for (const invoice of invoices) {
    mint.pay(invoice);
  }
  await vi.waitFor(
    async () => {
      const listed = await wallet.withOrigin(second).listQuotes();
      expect(listed.map((quote) => quote['request']).toSorted()).toEqual(invoices.toSorted());
    },
    { timeout: 60_000, interval: 200 },
  );
});

async function askInvoice(base: string, { npub }: TestWallet): Promise<string> {
  const { status, body } = await requestJson(base, `/.well-known/lnurlp/${npub}?amount=21000`);
  expect({ status, pr: body.pr }).toEqual({ status: 200, pr: expect.any(String) });
  return body.pr;
}

async function expectAnswer(base: string, path: string): Promise<void> {
  expect((await requestJson(base, path)).status).toBe(200);
}

/** The processes that watch a mint. */
async function ownersOf(database: pg.Client): Promise<string[]> {
  const { rows } = await database.query<{ process_id: string }>(
    'select process_id from mint_leases where process_id is not null',
  );
  return rows.map(({ process_id }) => process_id);
}
