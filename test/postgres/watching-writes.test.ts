import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { startCluster } from '../../scripts/postgres-cluster.ts';
import { type Database, openDatabase } from '../../src/database/database.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { eventually } from '../helpers/eventually.ts';
import { createDatabaseOn } from '../helpers/server-database.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/**
 * What PostgreSQL writes for quotes that nobody pays. The tests wait for polls most of the time. The server of the tests logs no full pages
 * (`full_page_writes`), so WAL is measured without what checkpoints add.
 */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const CHECK = 'POST /v1/mint/quote/bolt11/check';

/** The service looks once a second for what is due. */
const POLLED_WITHIN_MS = 2_000;

const TEST_TIMEOUT_MS = 300_000;

describe.concurrent('an unpaid invoice', () => {
  const INVOICES = 300;
  const MAX_BYTES = 8_192;

  /** The schedule of an uncovered quote that expires after an hour, by its age. */
  const INTERVALS = [
    { untilMs: MINUTE, everyMs: 4 * SECOND },
    { untilMs: 10 * MINUTE, everyMs: 15 * SECOND },
    { untilMs: HOUR + 10 * MINUTE, everyMs: MINUTE },
    { untilMs: 2 * HOUR, everyMs: 10 * MINUTE },
    { untilMs: DAY, everyMs: 2 * HOUR },
  ];

  it(
    'costs at most 8 KB of WAL from its creation to the end of its watch',
    async () => {
      await using site = await openSite({ socket: false });
      const { url } = await site.start();
      const wallet = new TestWallet(url);
      // The first one also stores the mint and the recipient.
      await createInvoice(url, wallet);
      const before = await walPosition(site.database);
      for (let number = 0; number < INVOICES; number += 1) {
        await createInvoice(url, wallet);
      }
      let ageMs = 0;
      for (const { untilMs, everyMs } of INTERVALS) {
        for (; ageMs < untilMs; ageMs += everyMs) {
          await site.pass(everyMs, 1);
        }
      }
      // Half of the steps, because some answers come after the next one.
      expect(site.mint.requestCounts[CHECK]).toBeGreaterThan(70);
      await eventually(async () => {
        site.clock.advance(2 * HOUR);
        expect(await countWatched(site.database)).toBe(0);
      });
      const bytes = (await walPosition(site.database)) - before;
      expect(bytes / INVOICES).toBeLessThanOrEqual(MAX_BYTES);
    },
    TEST_TIMEOUT_MS,
  );
});

/** A mint and a database, for a service whose time stands still until the test moves it. */
interface Site extends AsyncDisposable {
  mint: TestMint;
  database: Database;
  clock: TestClock;
  start(): Promise<Service>;
  /** Lets time pass, and waits for the polls that are due then, or until none can be. */
  pass(ms: number, batches: number): Promise<void>;
}

async function openSite(switches: Partial<TestMintSwitches>): Promise<Site> {
  const ends = new AsyncDisposableStack();
  const clock = new TestClock();
  const mint = await TestMint.start({ switches, now: clock.now });
  ends.defer(() => mint.close());
  // A server of its own: WAL is counted for all databases of a server, and other tests write too.
  const cluster = await startCluster();
  ends.defer(() => cluster.stop());
  const { url } = await createDatabaseOn(cluster.url, 'template0');
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  ends.defer(() => database.close());
  return {
    mint,
    database,
    clock,
    start: async () => {
      const service = await startService(testConfig(mint.url), {
        database,
        log: openLog('silent'),
        clock: clock.now,
        monotonicMs: clock.now,
        scanIntervalMs: 20,
        pollGapMs: 0,
      });
      ends.defer(() => service.stop());
      return service;
    },
    pass: async (ms, batches) => {
      const target = mint.requestCounts[CHECK] + batches;
      clock.advance(ms);
      const untilMs = performance.now() + POLLED_WITHIN_MS;
      while (mint.requestCounts[CHECK] < target && performance.now() < untilMs) {
        await delay(10);
      }
    },
    [Symbol.asyncDispose]: () => ends.disposeAsync(),
  };
}

async function createInvoice(url: string, wallet: TestWallet): Promise<void> {
  const { body } = await request(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
  expect(body.pr).toBeDefined();
}

/** Bytes of WAL since the server was made. */
async function walPosition({ db }: Database): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes`.execute(db);
  return rows[0]?.bytes ?? Number.NaN;
}

async function countWatched({ db }: Database): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from quotes where watch_until is not null`.execute(db);
  return rows[0]?.count ?? Number.NaN;
}
