import { sql } from 'kysely';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import type { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import {
  createTestDatabase,
  createUnmigratedDatabase,
  requirePostgresUrl,
  type TestDatabase,
} from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import {
  RecipientClient,
  requestJson,
  type TestQuoteSocket,
} from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';
import { createTestConfig, TEST_JWT_SECRET } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Several processes share a PostgreSQL database. Only the process with the lease of a mint watches it. */

const TAKEOVER_TIMEOUT_MS = 20_000;

/** Processes try to lease mints every second. This is longer, because the machine may be busy. */
const LEASE_TIMEOUT_MS = 30_000;

const INVOICE_COUNT = 5;
const POLL_INTERVAL_MS = 4_000;

let testDatabase: TestDatabase;
/** Separate connections for two services, as in two processes. */
let firstDatabase: Database;
let secondDatabase: Database;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  [firstDatabase, secondDatabase] = await Promise.all([testDatabase.open(), testDatabase.open()]);
  return async () => {
    await Promise.all([firstDatabase.close(), secondDatabase.close()]);
    await testDatabase.drop();
  };
});

it('applies each migration once if several processes start at the same time', async () => {
  const unmigrated = await createUnmigratedDatabase();
  const env = { DATABASE_URL: requirePostgresUrl(unmigrated), JWT_SECRET: TEST_JWT_SECRET };
  const processes = Array.from({ length: 4 }, () => new NutpostProcess('migrate', env));
  for (const process of processes) {
    expect(await process.waitForExit()).toEqual({ code: 0, signal: null, stderr: '' });
  }
  const database = await unmigrated.open();
  onTestFinished(async () => {
    await database.close();
    await unmigrated.drop();
  });
  const { rows } = await sql<{ name: string }>`
    select name from kysely_migration`.execute(database.db);
  const names = rows.map(({ name }) => name);
  expect(names).not.toEqual([]);
  expect(new Set(names).size).toBe(names.length);
});

it.each([
  ['on the WebSocket of the mint', { hasWebSocket: true }],
  ['by polling from one process', { hasWebSocket: false }],
])(
  'lists each payment once if it is observed %s, and sends each update once on the sockets of both processes',
  async (_name, switches) => {
    const { mint, clock, first, second } = await startTwoServices(switches);
    const wallet = new RecipientClient(first.publicOrigin, clock.now);
    const invoices: string[] = [];
    for (let index = 0; index < INVOICE_COUNT; index += 1) {
      invoices.push(await requestInvoice(index % 2 === 0 ? first : second, wallet));
    }
    const walletAtSecond = wallet.withOrigin(second.publicOrigin);
    const sockets = [
      await wallet.openSocket(),
      await wallet.openSocket(),
      await walletAtSecond.openSocket(),
    ];
    await waitForLeaseHolder();
    await eventually(() => expect(mint.openSocketCount).toBe(switches.hasWebSocket ? 1 : 0));
    if (!switches.hasWebSocket) {
      await expectOnePollPerInterval(mint, clock);
    }
    for (const invoice of invoices) {
      mint.pay(invoice);
    }
    if (!switches.hasWebSocket) {
      await eventually(() => {
        clock.advance(POLL_INTERVAL_MS);
        expect(sockets[0]?.unreadMessages).toHaveLength(INVOICE_COUNT);
      });
    }
    for (const socket of sockets) {
      const quoteIds = await receiveUpdates(socket);
      expect(new Set(quoteIds).size).toBe(INVOICE_COUNT);
    }
    expect(await wallet.listPaidQuotes()).toHaveLength(INVOICE_COUNT);
    expect(await walletAtSecond.listPaidQuotes()).toHaveLength(INVOICE_COUNT);
    for (const socket of sockets) {
      expect(await socket.drainMessages()).toEqual([]);
      await socket.close();
    }
  },
);

it(
  'watches the mints of a killed process in another process within 20 seconds',
  async () => {
    const mint = await startTestMint({ hasWebSocket: false });
    const killedProcess = new NutpostProcess('serve', {
      DATABASE_URL: requirePostgresUrl(testDatabase),
      JWT_SECRET: TEST_JWT_SECRET,
      DEFAULT_MINT_URL: mint.url,
    });
    const url = await killedProcess.waitForUrl();
    const wallet = new RecipientClient(url);
    const invoice = await requestInvoice({ url }, wallet);
    const killedProcessId = await waitForLeaseHolder();
    const other = await start(firstDatabase, mint.url);

    await killedProcess.kill();
    mint.pay(invoice);
    const walletAtOther = wallet.withOrigin(other.publicOrigin);
    await vi.waitFor(async () => expect(await walletAtOther.listPaidQuotes()).toHaveLength(1), {
      timeout: TAKEOVER_TIMEOUT_MS,
      interval: 200,
    });
    expect(await waitForLeaseHolder()).not.toBe(killedProcessId);
  },
  3 * TAKEOVER_TIMEOUT_MS,
);

async function startTwoServices(switches: Partial<TestMintSwitches>) {
  const clock = new TestClock();
  const mint = await startTestMint(switches, { now: clock.now });
  const first = await start(firstDatabase, mint.url, clock);
  const second = await start(secondDatabase, mint.url, clock);
  return { mint, clock, first, second };
}

async function start(database: Database, mintUrl: string, clock?: TestClock): Promise<Service> {
  const service = await startService(createTestConfig(mintUrl), {
    database,
    log: createLogger('silent'),
    pollIntervalMs: 0,
    scanIntervalMs: 5,
    ...(clock === undefined ? {} : { clock: clock.now, monotonicMs: clock.now }),
  });
  onTestFinished(() => service.stop());
  return service;
}

async function requestInvoice(
  service: Pick<Service, 'url'>,
  wallet: RecipientClient,
): Promise<string> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  return (await requestJson(service.url, path)).body.pr;
}

/** Two processes would send two polls per interval. */
async function expectOnePollPerInterval(mint: TestMint, clock: TestClock): Promise<void> {
  const countPolls = () => mint.requestCounts['POST /v1/mint/quote/bolt11/check'];
  await eventually(() => expect(countPolls()).toBe(1));
  let elapsedIntervals = 0;
  for (let poll = 2; poll <= 12; poll += 1) {
    await eventually(() => {
      clock.advance(POLL_INTERVAL_MS);
      elapsedIntervals += 1;
      expect(countPolls()).toBeGreaterThanOrEqual(poll);
    });
  }
  expect(countPolls()).toBeLessThanOrEqual(elapsedIntervals + 1);
}

/** Waits until a process has the lease of the only mint. @returns the id of the process */
async function waitForLeaseHolder(): Promise<string | undefined> {
  return await vi.waitFor(
    async () => {
      const rows = await firstDatabase.db.selectFrom('mint_leases').select('process_id').execute();
      expect(rows).toHaveLength(1);
      return rows[0]?.process_id;
    },
    { timeout: LEASE_TIMEOUT_MS },
  );
}

async function receiveUpdates(socket: TestQuoteSocket): Promise<string[]> {
  const quoteIds: string[] = [];
  while (quoteIds.length < INVOICE_COUNT) {
    const message = await socket.nextMessage();
    expect(message.type).toBe('update');
    quoteIds.push(message.payload.quoteId);
  }
  return quoteIds;
}
