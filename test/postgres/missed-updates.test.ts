import { sql } from 'kysely';
import pg from 'pg';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { type Database, openDatabase } from '../../src/store/database.ts';
import type { NewQuote } from '../../src/store/quote-store.ts';
import { Store } from '../../src/store/store.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { listeningConnections } from '../helpers/listening-connections.ts';
import { recorderOn } from '../helpers/recorder.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** What was told while the connection was broken on which a process hears it. */

let testDatabase: TestDatabase;
/** Another process's. */
let elsewhere: Database;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  elsewhere = await testDatabase.open();
});

afterEach(async () => {
  await elsewhere.close();
  await testDatabase.drop();
});

it('payments that another process recorded meanwhile reach the sockets that stayed open', async () => {
  const service = await start();
  const wallet = new TestWallet(service.publicOrigin);
  const socket = await wallet.openSocket();
  const quotes = await issueElsewhere(wallet, 3);

  const { restore } = await cutListeners();
  await recordElsewhere(quotes);
  expect(await socket.drain()).toEqual([]);
  await restore();

  for (const { quoteId } of quotes) {
    expect(await socket.next()).toEqual({ type: 'update', payload: { quoteId } });
  }
  expect((await wallet.listQuotes()).map((quote) => quote['quoteId']).toSorted()).toEqual(
    quotes.map((quote) => quote.quoteId).toSorted(),
  );
  await socket.close();
});

it('a process knows since when it may have missed something, and is told once', async () => {
  // That the connection is asked after, meanwhile, would be a later sign that it is good.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const listening = await listen();
  listening.clock.advance(1_000);
  await tell('one channel', 'before');
  expect(await listening.heard()).toEqual(['one channel', 'before']);
  const lastGoodAtMs = listening.clock.nowMs;
  listening.clock.advance(60_000);

  const { restore } = await cutListeners();
  await listening.broke;
  await tell('one channel', 'unheard');
  await restore();

  expect(await listening.heard()).toEqual(['gap since', lastGoodAtMs]);
  await tell('another channel', 'after');
  expect(await listening.heard()).toEqual(['another channel', 'after']);
});

it('a clock that was set back meanwhile hides nothing', async () => {
  const listening = await listen();
  const { restore } = await cutListeners();
  await listening.broke;
  listening.clock.advance(-3_600_000);
  await restore();
  expect(await listening.heard()).toEqual(['gap since', listening.clock.nowMs]);
});

it('a process listens to all that others tell on one connection', async () => {
  await start();
  expect(await listeningConnections(elsewhere)).toHaveLength(1);
});

async function start(): Promise<Service> {
  const config = testConfig(NOWHERE_MINT, { DATABASE_URL: databaseUrl() });
  const service = await startService(config, { log: openLog('silent') });
  onTestFinished(() => service.stop());
  return service;
}

/** A process that listens to two channels. */
async function listen() {
  const clock = new TestClock();
  const broke = Promise.withResolvers<void>();
  const heard: (string | number)[][] = [];
  let wake = () => {};
  const hear = (...what: (string | number)[]) => {
    heard.push(what);
    wake();
  };
  const database = await openDatabase(testDatabase.location, () => broke.resolve());
  const listening = await database.listen({
    channels: {
      'one channel': (payload) => hear('one channel', payload),
      'another channel': (payload) => hear('another channel', payload),
    },
    onGap: (sinceMs) => hear('gap since', sinceMs),
    clock: clock.now,
  });
  onTestFinished(async () => {
    await listening.close();
    await database.close();
  });
  return {
    clock,
    broke: broke.promise,
    heard: async () => {
      while (heard.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return heard.shift();
    },
  };
}

/** Cuts every connection that listens, and lets no new one in until it is restored. */
async function cutListeners(): Promise<{ restore: () => Promise<void> }> {
  const name = new URL(databaseUrl()).pathname.slice(1);
  await onServer(`alter database ${name} allow_connections false`);
  for (const pid of await listeningConnections(elsewhere)) {
    await sql`select pg_terminate_backend(${pid}::int, 10000)`.execute(elsewhere.db);
  }
  expect(await listeningConnections(elsewhere)).toEqual([]);
  return { restore: () => onServer(`alter database ${name} allow_connections true`) };
}

async function tell(channel: string, payload: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${payload})`.execute(elsewhere.db);
}

async function issueElsewhere(wallet: TestWallet, count: number): Promise<NewQuote[]> {
  const quotes = Array.from({ length: count }, () => unpaidQuote(wallet.pubkey));
  for (const quote of quotes) {
    await new Store(elsewhere.db).quotes.insert(quote);
  }
  return quotes;
}

async function recordElsewhere(quotes: readonly NewQuote[]): Promise<void> {
  await recorderOn(new Store(elsewhere.db)).record(
    NOWHERE_MINT,
    quotes.map(({ quoteId }) => ({ quoteId, state: 'PAID', source: 'poll' })),
  );
}

function databaseUrl(): string {
  if (testDatabase.location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  return testDatabase.location.url;
}

async function onServer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: process.env['TEST_DATABASE_URL'] });
  await client.connect();
  await client.query(statement);
  await client.end();
}
