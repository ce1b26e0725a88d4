import { bytesToHex } from 'nostr-tools/utils';
import pg from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { freePort } from '../../scripts/server-process.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { createServerDatabase } from '../helpers/server-database.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { TEST_JWT_SECRET } from '../helpers/world.ts';
import { Load } from './load.ts';

/** A process is told to stop while wallets and payers are at it, and another one is there. */

const HOST = '127.0.0.1';
const SOCKETS = 1_000;
const REQUESTS_PER_SECOND = 100;
const MINTS = 4;

/** From the signal on, the issue's. */
const TAKEOVER_WITHIN_MS = 2_000;
const STOP_WITHIN_MS = 10_000;

/** A slow machine opens two thousand sockets. */
const TEST_TIMEOUT_MS = 180_000;

it(
  'no request is cut, each socket hears why before it closes, and the other process has the mints at once',
  async () => {
    const mints = await Promise.all(Array.from({ length: MINTS }, () => TestMint.start()));
    const { url: databaseUrl, drop } = await createServerDatabase();
    const database = new pg.Client({ connectionString: databaseUrl });
    onTestFinished(async () => {
      await database.end();
      await drop();
      await Promise.all(mints.map((mint) => mint.close()));
    });
    const [firstPort, secondPort] = [String(await freePort(HOST)), String(await freePort(HOST))];
    const settings = {
      DATABASE_URL: databaseUrl,
      JWT_SECRET: TEST_JWT_SECRET,
      PUBLIC_ORIGINS: `http://${HOST}:${firstPort},http://${HOST}:${secondPort}`,
      DEFAULT_MINT_URL: mints[0]?.url ?? '',
      STOP_DELAY_SECONDS: '2',
    };
    const leaving = new NutpostProcess('serve', { ...settings, PORT: firstPort });
    const first = await leaving.listening();
    await database.connect();
    const wallets = await Promise.all(mints.map((mint) => recipientAt(first, mint.url)));
    const early = await Promise.all(wallets.map((wallet) => askInvoice(wallet)));
    await vi.waitFor(async () => expect(await owners(database)).toHaveLength(MINTS), {
      timeout: 30_000,
    });
    const [theFirst] = await owners(database);
    const second = await new NutpostProcess('serve', { ...settings, PORT: secondPort }).listening();
    const load = await Load.start({
      first,
      second,
      secretKeys: wallets.map((wallet) => bytesToHex(wallet.secretKey)),
      sockets: SOCKETS,
      requestsPerSecond: REQUESTS_PER_SECOND,
    });

    const stopping = leaving.stop();
    const toldAtMs = performance.now();
    const ended = stopping.then((ending) => ({ ...ending, tookMs: performance.now() - toldAtMs }));
    await vi.waitFor(
      async () => {
        const now = await owners(database);
        expect(now).toHaveLength(MINTS);
        expect(now).not.toContain(theFirst);
      },
      { timeout: 30_000, interval: 20 },
    );
    const takeoverMs = performance.now() - toldAtMs;
    const { tookMs, ...ending } = await ended;
    const report = await load.end();

    expect(report.cut).toEqual([]);
    expect(report.sockets).toEqual({ told: SOCKETS, untold: 0, atSecond: SOCKETS });
    expect(takeoverMs).toBeLessThan(TAKEOVER_WITHIN_MS);
    expect(ending).toEqual({ code: 0, signal: null, stderr: '' });
    expect(tookMs).toBeLessThan(STOP_WITHIN_MS);
    // Both were asked, and the second still is when all is over.
    expect(report.answered.first).toBeGreaterThan(REQUESTS_PER_SECOND);
    expect(report.answered.second).toBeGreaterThan(0);

    // Every invoice that left, also in the last moments of the first process, is paid and listed.
    const invoices = [...early, ...report.invoices];
    for (const invoice of invoices) {
      mints.find((mint) => isOf(mint, invoice))?.pay(invoice);
    }
    await vi.waitFor(
      async () => {
        const lists = await Promise.all(wallets.map((wallet) => wallet.at(second).listQuotes()));
        const listed = lists.flat().map((quote) => quote['request']);
        expect(listed.toSorted()).toEqual(invoices.toSorted());
      },
      { timeout: 60_000, interval: 200 },
    );
  },
  TEST_TIMEOUT_MS,
);

/** A recipient who chose a mint. */
async function recipientAt(base: string, mintUrl: string): Promise<TestWallet> {
  const wallet = new TestWallet(base);
  const { status } = await wallet.send('PATCH', '/api/v2/user/mint', { mint_url: mintUrl });
  expect(status).toBe(200);
  return wallet;
}

async function askInvoice(wallet: TestWallet): Promise<string> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  return (await request(wallet.base, path)).body.pr;
}

function isOf(mint: TestMint, invoice: string): boolean {
  return [...mint.quotes.values()].some((quote) => quote.request === invoice);
}

/** Who watches each mint. */
async function owners(database: pg.Client): Promise<string[]> {
  const { rows } = await database.query<{ owner: string }>('select owner from mint_leases');
  return rows.map(({ owner }) => owner);
}
