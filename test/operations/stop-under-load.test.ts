import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { freePort } from '../../scripts/server-process.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { createServerDatabase } from '../helpers/server-database.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { TEST_JWT_SECRET } from '../helpers/world.ts';

/** One of two processes is stopped while wallets and payers use it. */

const HOST = '127.0.0.1';
const SOCKETS = 100;
const REQUESTS_EVERY_MS = 20;

/** A balancer notices late that a process is not ready. */
const CHECK_EVERY_MS = 500;

/** From the signal on. */
const TAKEOVER_WITHIN_MS = 2_000;
const STOP_WITHIN_MS = 10_000;

it('cuts no request, tells every socket why it closes, and hands its mints over', async () => {
  const mint = await TestMint.start();
  const { url: databaseUrl, drop } = await createServerDatabase();
  const database = new pg.Client({ connectionString: databaseUrl });
  await database.connect();
  onTestFinished(async () => {
    await database.end();
    await drop();
    await mint.close();
  });
  const ports = [await freePort(HOST), await freePort(HOST)] as const;
  const settings = {
    DATABASE_URL: databaseUrl,
    JWT_SECRET: TEST_JWT_SECRET,
    PUBLIC_ORIGINS: ports.map((port) => `http://${HOST}:${port}`).join(','),
    DEFAULT_MINT_URL: mint.url,
    STOP_DELAY_SECONDS: '2',
  };
  const start = (port: number) => new NutpostProcess('serve', { ...settings, PORT: `${port}` });
  const leaving = start(ports[0]);
  const first = await leaving.listening();
  const wallet = new TestWallet(first);
  const invoices = [await askInvoice(first, wallet)];
  const [owner] = await vi.waitFor(async () => {
    const found = await ownersOf(database);
    expect(found).toHaveLength(1);
    return found;
  });
  const second = await start(ports[1]).listening();
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
    } while ((await request(first, '/health/ready').catch(() => null))?.status === 200);
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
    expect(await socket.next()).toMatchObject({ type: 'error' });
    await socket.closed();
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
      const listed = await wallet.at(second).listQuotes();
      expect(listed.map((quote) => quote['request']).toSorted()).toEqual(invoices.toSorted());
    },
    { timeout: 60_000, interval: 200 },
  );
});

async function askInvoice(base: string, { npub }: TestWallet): Promise<string> {
  const { status, body } = await request(base, `/.well-known/lnurlp/${npub}?amount=21000`);
  expect({ status, pr: body.pr }).toEqual({ status: 200, pr: expect.any(String) });
  return body.pr;
}

async function expectAnswer(base: string, path: string): Promise<void> {
  expect((await request(base, path)).status).toBe(200);
}

/** The processes that watch a mint. */
async function ownersOf(database: pg.Client): Promise<string[]> {
  const { rows } = await database.query<{ owner: string }>(
    'select owner from mint_leases where owner is not null',
  );
  return rows.map(({ owner }) => owner);
}
