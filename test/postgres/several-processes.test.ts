import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import { openLog } from '../../src/log.ts';
import { decodeUpdates, QUOTE_CHANNEL } from '../../src/notifications/quote-channel.ts';
import { type Service, startService } from '../../src/service.ts';
import { type Database, openDatabase } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { ChannelEar } from '../helpers/channel-ear.ts';
import { createBareDatabase, type TestDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { listeningConnections } from '../helpers/listening-connections.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { recorderOn } from '../helpers/recorder.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { request, type TestSocket, TestWallet } from '../helpers/wallet.ts';
import { TEST_JWT_SECRET, testConfig } from '../helpers/world.ts';

/** Several processes on one PostgreSQL database. */

let testDatabase: TestDatabase;
/** Each as one process has it. */
let here: Database;
let there: Database;

beforeEach(async () => {
  testDatabase = await createBareDatabase();
});

afterEach(() => testDatabase.drop());

async function openBoth(): Promise<void> {
  [here, there] = await Promise.all([testDatabase.open(), testDatabase.open()]);
  onTestFinished(async () => {
    await Promise.all([here.close(), there.close()]);
  });
}

describe('an empty database', () => {
  it('is brought up to date once by processes that all start at the same moment', async () => {
    const env = { DATABASE_URL: databaseUrl(), JWT_SECRET: TEST_JWT_SECRET };
    const processes = Array.from({ length: 4 }, () => new NutpostProcess('migrate', env));
    for (const process of processes) {
      expect(await process.ended()).toEqual({ code: 0, signal: null, stderr: '' });
    }
    await openBoth();
    const { rows } = await sql<{ how_many: number; names: number }>`
      select count(*) as how_many, count(distinct name) as names from kysely_migration
    `.execute(here.db);
    expect(rows[0]?.how_many).toBeGreaterThan(0);
    expect(rows[0]?.how_many).toBe(rows[0]?.names);
  });

  it('is opened by many connections of one process at once', async () => {
    const databases = await Promise.all(Array.from({ length: 6 }, () => testDatabase.open()));
    for (const database of databases) {
      expect(await new Store(database.db).watch.watchedMints()).toEqual([]);
    }
    await Promise.all(databases.map((database) => database.close()));
  });
});

describe('a payment that one of two services observes', () => {
  const INVOICES = 5;

  it.each([
    ['through their sockets', { socket: true }],
    ['by polling', { socket: false }],
  ])('%s is listed once and told once to each socket of either', async (_way, switches) => {
    await openBoth();
    const clock = new TestClock();
    const mint = await TestMint.start({ switches, now: clock.now });
    onTestFinished(() => mint.close());
    const first = await start(here, mint.url, clock);
    const wallet = new TestWallet(first.publicOrigin, clock.now);
    const requests = [];
    for (let index = 0; index < INVOICES; index += 1) {
      const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
      requests.push((await request(first.url, path)).body.pr);
    }
    const second = await start(there, mint.url, clock);
    const sockets = [
      await wallet.openSocket(),
      await wallet.openSocket(),
      await wallet.at(second.publicOrigin).openSocket(),
    ];
    const ear = await ChannelEar.open(here, QUOTE_CHANNEL);
    await eventually(() => expect(mint.openSocketCount).toBe(switches.socket ? 1 : 0));

    for (const pr of requests) {
      mint.pay(pr);
    }
    if (!switches.socket) {
      await eventually(() => {
        clock.advance(4_000);
        expect(sockets[0]?.unread).toHaveLength(INVOICES);
      });
    }
    for (const socket of sockets) {
      expect(await updatesOf(socket, INVOICES)).toHaveLength(INVOICES);
    }
    const listed = await wallet.listQuotes();
    expect(listed).toHaveLength(INVOICES);
    for (const socket of sockets) {
      expect(await socket.drain()).toEqual([]);
      await socket.close();
    }
    // What either has heard is recorded when it has stopped.
    await Promise.all([first.stop(), second.stop()]);
    const told = (await ear.heard()).flatMap(decodeUpdates).map((update) => update.quoteId);
    expect(told.toSorted()).toEqual(listed.map((quote) => quote['quoteId']).toSorted());
    expect(await placesOf(wallet.pubkey)).toEqual(Array.from(requests.keys(), (key) => key + 1));
  });

  async function placesOf(pubkey: string): Promise<(number | null)[]> {
    const rows = await here.db
      .selectFrom('quotes')
      .select('paid_seq')
      .where('pubkey', '=', pubkey)
      .orderBy('paid_seq')
      .execute();
    return rows.map((row) => row.paid_seq);
  }
});

describe('a payment that one process records', () => {
  it('reaches the sockets of every other', async () => {
    await openBoth();
    const service = await start(there, NOWHERE_MINT);
    const wallet = new TestWallet(service.publicOrigin);
    const socket = await wallet.openSocket();
    const quoteId = await recordPayment(wallet);
    expect(await updatesOf(socket, 1)).toEqual([quoteId]);
    expect(await wallet.listQuotes()).toMatchObject([{ quoteId, state: 'PAID' }]);
    await socket.close();
  });

  it('reaches them after the connection that listened was cut', async () => {
    await openBoth();
    const service = await start(there, NOWHERE_MINT);
    const wallet = new TestWallet(service.publicOrigin);
    const socket = await wallet.openSocket();
    const cut = await cutListeners();
    expect(cut).toHaveLength(1);
    await eventually(async () => {
      const [listener] = await listeningConnections(here);
      expect(listener).toBeDefined();
      expect(cut).not.toContain(listener);
    });
    const quoteId = await recordPayment(wallet);
    expect(await updatesOf(socket, 1)).toEqual([quoteId]);
    await socket.close();
  });

  it('is read from a service that lost every connection', async () => {
    await openBoth();
    const service = await start(there, NOWHERE_MINT);
    const wallet = new TestWallet(service.publicOrigin);
    expect(await wallet.listQuotes()).toEqual([]);
    await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()
    `.execute(here.db);
    const quoteId = await recordPayment(wallet);
    await eventually(async () => expect(await wallet.listQuotes()).toMatchObject([{ quoteId }]));
  });

  async function recordPayment(wallet: TestWallet): Promise<string> {
    const store = new Store(here.db);
    const quote = unpaidQuote(wallet.pubkey);
    await store.quotes.insert(quote);
    const { mintUrl, quoteId } = quote;
    await recorderOn(store).record(mintUrl, [{ quoteId, state: 'PAID', source: 'poll' }]);
    return quoteId;
  }
});

describe('a connection', () => {
  it('that is cut between two statements fails its transaction, and nothing else', async () => {
    await openBoth();
    const broke = Promise.withResolvers<Error>();
    const database = await openDatabase(testDatabase.location, broke.resolve);
    onTestFinished(() => database.close());
    const cutHalfWay = database.db.transaction().execute(async (tx) => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(tx);
      await sql`select pg_terminate_backend(${rows[0]?.pid}::int)`.execute(here.db);
      await broke.promise;
      await sql`select 1`.execute(tx);
    });
    await expect(cutHalfWay).rejects.toThrow();
    expect((await broke.promise).message).toContain('terminating connection');
    expect(await new Store(database.db).watch.watchedMints()).toEqual([]);
  });
});

describe('listening', () => {
  it('ends for good, also while a broken connection is being opened again', async () => {
    await openBoth();
    const broke = Promise.withResolvers<void>();
    const database = await openDatabase(testDatabase.location, () => broke.resolve());
    onTestFinished(() => database.close());
    const listening = await database.listen({
      channels: { a_channel: () => undefined },
      onGap: () => undefined,
      clock: Date.now,
    });
    await cutListeners();
    await broke.promise;
    await listening.close();
    await eventually(async () => expect(await listeningConnections(here)).toEqual([]));
  });
});

async function cutListeners(): Promise<number[]> {
  const pids = await listeningConnections(here);
  for (const pid of pids) {
    await sql`select pg_terminate_backend(${pid}::int)`.execute(here.db);
  }
  return pids;
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

async function updatesOf(socket: TestSocket, count: number): Promise<string[]> {
  const quoteIds: string[] = [];
  while (quoteIds.length < count) {
    const message = await socket.next();
    expect(message.type).toBe('update');
    quoteIds.push(message.payload.quoteId);
  }
  return quoteIds;
}

function databaseUrl(): string {
  if (testDatabase.location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  return testDatabase.location.url;
}
