import { sql } from 'kysely';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import {
  createTestDatabase,
  createUnmigratedDatabase,
  postgresUrl,
  type TestDatabase,
} from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { TEST_JWT_SECRET, testConfig } from '../helpers/test-environment.ts';
import { requestJson, type TestQuoteSocket, TestWallet } from '../helpers/test-wallet.ts';

/** Several processes on one PostgreSQL database: each mint is watched by one of them. */

/** After a kill -9, another process watches the mint within this time. */
const TAKEOVER_MS = 20_000;

/** Processes look for mints every second, and renew their lease every three. */
const OWNED_WITHIN_MS = 30_000;

const INVOICES = 5;

let testDatabase: TestDatabase;
/** The connections of two processes. */
let here: Database;
let there: Database;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  [here, there] = await Promise.all([testDatabase.open(), testDatabase.open()]);
});

afterEach(async () => {
  await Promise.all([here.close(), there.close()]);
  await testDatabase.drop();
});

it('migrates an empty database once if several processes start at the same moment', async () => {
  const bare = await createUnmigratedDatabase();
  const env = { DATABASE_URL: postgresUrl(bare), JWT_SECRET: TEST_JWT_SECRET };
  const processes = Array.from({ length: 4 }, () => new NutpostProcess('migrate', env));
  for (const process of processes) {
    expect(await process.waitForExit()).toEqual({ code: 0, signal: null, stderr: '' });
  }
  const database = await bare.open();
  onTestFinished(async () => {
    await database.close();
    await bare.drop();
  });
  const rows = await sql<{ name: string }>`select name from kysely_migration`.execute(database.db);
  const names = rows.rows.map(({ name }) => name);
  expect(names).not.toEqual([]);
  expect(new Set(names).size).toBe(names.length);
});

it.each([
  ['on the socket of the mint', { hasWebSocket: true }],
  ['by polling', { hasWebSocket: false }],
])(
  'lists payments seen %s once, and updates the sockets of every process once',
  async (_way, switches) => {
    const { mint, clock, first, second } = await two(switches);
    const wallet = new TestWallet(first.publicOrigin, clock.now);
    const invoices = [];
    for (let index = 0; index < INVOICES; index += 1) {
      invoices.push(await askInvoice(index % 2 === 0 ? first : second, wallet));
    }
    const reader = wallet.withOrigin(second.publicOrigin);
    const sockets = [
      await wallet.openSocket(),
      await wallet.openSocket(),
      await reader.openSocket(),
    ];
    await theOwner();
    await eventually(() => expect(mint.openSocketCount).toBe(switches.hasWebSocket ? 1 : 0));
    for (const invoice of invoices) {
      mint.pay(invoice);
    }
    if (!switches.hasWebSocket) {
      await eventually(() => {
        clock.advance(4_000);
        expect(sockets[0]?.unreadMessages).toHaveLength(INVOICES);
      });
    }
    for (const socket of sockets) {
      const quoteIds = await updatesOf(socket);
      expect(new Set(quoteIds).size).toBe(INVOICES);
    }
    expect(await wallet.listQuotes()).toHaveLength(INVOICES);
    expect(await reader.listQuotes()).toHaveLength(INVOICES);
    for (const socket of sockets) {
      expect(await socket.drainMessages()).toEqual([]);
      await socket.close();
    }
  },
);

it('polls a mint from one process only', async () => {
  const { mint, clock, first, second } = await two({ hasWebSocket: false });
  const wallet = new TestWallet(first.publicOrigin, clock.now);
  await askInvoice(first, wallet);
  await askInvoice(second, wallet);
  await theOwner();
  const polls = () => mint.requestCounts['POST /v1/mint/quote/bolt11/check'];
  await eventually(() => expect(polls()).toBe(1));
  let advances = 0;
  for (let poll = 2; poll <= 12; poll += 1) {
    await eventually(() => {
      clock.advance(4_000);
      advances += 1;
      expect(polls()).toBeGreaterThanOrEqual(poll);
    });
  }
  // Two processes would have sent twice as many.
  expect(polls()).toBeLessThanOrEqual(advances + 1);
});

it(
  'moves a mint to another process within 20 seconds after kill -9',
  async () => {
    const mint = await startMint({ hasWebSocket: false });
    const killed = new NutpostProcess('serve', {
      DATABASE_URL: postgresUrl(testDatabase),
      JWT_SECRET: TEST_JWT_SECRET,
      DEFAULT_MINT_URL: mint.url,
    });
    const url = await killed.waitUntilListening();
    const wallet = new TestWallet(url);
    const invoice = await askInvoice({ url }, wallet);
    const owner = await theOwner();
    const other = await start(here, mint.url);

    await killed.kill();
    mint.pay(invoice);
    const reader = wallet.withOrigin(other.publicOrigin);
    await vi.waitFor(async () => expect(await reader.listQuotes()).toHaveLength(1), {
      timeout: TAKEOVER_MS,
      interval: 200,
    });
    expect(await theOwner()).not.toBe(owner);
  },
  3 * TAKEOVER_MS,
);

it('continues to watch after a running process lost its lease', async () => {
  const { mint, clock, first } = await two({ hasWebSocket: false });
  const wallet = new TestWallet(first.publicOrigin, clock.now);
  const invoice = await askInvoice(first, wallet);
  await theOwner();
  await sql`delete from watch_processes`.execute(here.db);
  await theOwner();
  mint.pay(invoice);
  await eventually(async () => {
    clock.advance(4_000);
    expect(await wallet.listQuotes()).toHaveLength(1);
  });
});

/** Two services, as in two processes, with a fixed clock. */
async function two(switches: Partial<TestMintSwitches>) {
  const clock = new TestClock();
  const mint = await startMint(switches, { now: clock.now });
  const first = await start(here, mint.url, clock);
  const second = await start(there, mint.url, clock);
  return { mint, clock, first, second };
}

async function start(database: Database, mintUrl: string, clock?: TestClock): Promise<Service> {
  const service = await startService(testConfig(mintUrl), {
    database,
    log: createLogger('silent'),
    pollIntervalMs: 0,
    scanIntervalMs: 5,
    ...(clock === undefined ? {} : { clock: clock.now, monotonicMs: clock.now }),
  });
  onTestFinished(() => service.stop());
  return service;
}

async function askInvoice(service: Pick<Service, 'url'>, wallet: TestWallet): Promise<string> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  return (await requestJson(service.url, path)).body.pr;
}

/** Waits for a process to lease the mint, and returns its id. */
async function theOwner(): Promise<string | undefined> {
  return await vi.waitFor(
    async () => {
      const rows = await here.db.selectFrom('mint_leases').select('process_id').execute();
      expect(rows).toHaveLength(1);
      return rows[0]?.process_id;
    },
    { timeout: OWNED_WITHIN_MS },
  );
}

async function updatesOf(socket: TestQuoteSocket): Promise<string[]> {
  const quoteIds: string[] = [];
  while (quoteIds.length < INVOICES) {
    const message = await socket.nextMessage();
    expect(message.type).toBe('update');
    quoteIds.push(message.payload.quoteId);
  }
  return quoteIds;
}
