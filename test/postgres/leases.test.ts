import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { TestMintSwitches } from '../../src/demo/test-mint/switches.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import type { Database } from '../../src/store/database.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { TEST_JWT_SECRET, testConfig } from '../helpers/world.ts';

/** Several processes share the mints: each is watched by one of them. */

/** After a kill -9, another process watches the mint within this time. */
const TAKEOVER_MS = 20_000;

/** A process that is there looks around every second, and says every three that it is alive. */
const OWNED_WITHIN_MS = 30_000;

let testDatabase: TestDatabase;
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

describe('a mint', () => {
  it('is polled by one process, though two are there', async () => {
    const { mint, clock, first, second } = await two({ socket: false });
    const wallet = new TestWallet(first.publicOrigin, clock.now);
    await askInvoice(first, wallet);
    await askInvoice(second, wallet);
    await theOwner();
    await eventually(() => expect(pollsOf(mint)).toBe(1));
    let advances = 0;
    for (let poll = 2; poll <= 12; poll += 1) {
      await eventually(() => {
        clock.advance(4_000);
        advances += 1;
        expect(pollsOf(mint)).toBeGreaterThanOrEqual(poll);
      });
    }
    // Two processes would have sent twice as many.
    expect(pollsOf(mint)).toBeLessThanOrEqual(advances + 1);
  });

  it('has one socket, on which quotes are that any process issues', async () => {
    const { mint, clock, first, second } = await two({});
    const wallet = new TestWallet(first.publicOrigin, clock.now);
    await askInvoice(first, wallet);
    await eventually(() => expect(mint.openSocketCount).toBe(1));
    const invoices = [];
    for (const service of [first, second, first, second]) {
      invoices.push(await askInvoice(service, wallet));
    }
    for (const invoice of invoices) {
      mint.pay(invoice);
    }
    await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(4));
    expect(mint.openSocketCount).toBe(1);
    // The clock stands, so only the first quote was polled once.
    expect(pollsOf(mint)).toBeLessThanOrEqual(1);
  });

  it('goes to another process at once when its own is stopped', async () => {
    const clock = new TestClock();
    const mint = await startMint({ socket: false }, clock);
    const first = await start(here, mint.url, clock);
    const wallet = new TestWallet(first.publicOrigin, clock.now);
    const invoice = await askInvoice(first, wallet);
    const owner = await theOwner();
    const second = await start(there, mint.url, clock);

    await first.stop();
    // Far sooner than a lease ends.
    expect(await theOwner()).not.toBe(owner);
    mint.pay(invoice);
    const reader = wallet.at(second.publicOrigin);
    await eventually(async () => {
      clock.advance(4_000);
      expect(await reader.listQuotes()).toHaveLength(1);
    });
  });

  it(
    'goes to another process within 20 seconds when its own is killed',
    async () => {
      const mint = await TestMint.start({ switches: { socket: false } });
      onTestFinished(() => mint.close());
      const killed = new NutpostProcess('serve', {
        DATABASE_URL: databaseUrl(),
        JWT_SECRET: TEST_JWT_SECRET,
        DEFAULT_MINT_URL: mint.url,
      });
      const url = await killed.listening();
      const wallet = new TestWallet(url);
      const invoice = await askInvoice({ url }, wallet);
      const owner = await theOwner();
      const other = await start(here, mint.url);

      await killed.kill();
      const killedAtMs = performance.now();
      mint.pay(invoice);
      const reader = wallet.at(other.publicOrigin);
      await vi.waitFor(async () => expect(await reader.listQuotes()).toHaveLength(1), {
        timeout: TAKEOVER_MS,
        interval: 200,
      });
      expect(performance.now() - killedAtMs).toBeLessThan(TAKEOVER_MS);
      expect(await theOwner()).not.toBe(owner);
    },
    3 * TAKEOVER_MS,
  );

  it('is watched again by a process that others took for dead', async () => {
    const { mint, clock, first } = await two({ socket: false });
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
});

/** Two services, as two processes have them, with a clock that stands. */
async function two(switches: Partial<TestMintSwitches>) {
  const clock = new TestClock();
  const mint = await startMint(switches, clock);
  const first = await start(here, mint.url, clock);
  const second = await start(there, mint.url, clock);
  return { mint, clock, first, second };
}

async function start(database: Database, mintUrl: string, clock?: TestClock): Promise<Service> {
  const service = await startService(testConfig(mintUrl), {
    database,
    log: openLog('silent'),
    pollGapMs: 0,
    scanIntervalMs: 5,
    ...(clock === undefined ? {} : { clock: clock.now, monotonicMs: clock.now }),
  });
  onTestFinished(() => service.stop());
  return service;
}

async function askInvoice(service: Pick<Service, 'url'>, wallet: TestWallet): Promise<string> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  return (await request(service.url, path)).body.pr;
}

async function startMint(switches: Partial<TestMintSwitches>, clock: TestClock) {
  const mint = await TestMint.start({ switches, now: clock.now });
  onTestFinished(() => mint.close());
  return mint;
}

/** The process that watches the one mint, once there is one. */
async function theOwner(): Promise<string | undefined> {
  return await vi.waitFor(
    async () => {
      const rows = await here.db.selectFrom('mint_leases').select('owner').execute();
      expect(rows).toHaveLength(1);
      return rows[0]?.owner;
    },
    { timeout: OWNED_WITHIN_MS },
  );
}

function pollsOf(mint: TestMint): number {
  return mint.requestCounts['POST /v1/mint/quote/bolt11/check'];
}

function databaseUrl(): string {
  if (testDatabase.location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  return testDatabase.location.url;
}
