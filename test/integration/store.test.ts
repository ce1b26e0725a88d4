import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { MintInfo } from '../../src/domain/mint-info.ts';
import { type Database, type DatabaseLocation, openDatabase } from '../../src/store/database.ts';
import { QuoteStore } from '../../src/store/quote-store.ts';
import { Store } from '../../src/store/store.ts';
import { ChannelEar } from '../helpers/channel-ear.ts';
import { createTestDatabase, hasServer, type TestDatabase } from '../helpers/database.ts';
import { FIRST_PAID_AT_MS, keepPayments } from '../helpers/paid-quotes.ts';
import { costOf } from '../helpers/query-cost.ts';
import { CREATED_AT_MS, NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';

/** The store on either database: `npm test` on the embedded one, `npm run test:postgres` on a server. */

let testDatabase: TestDatabase;
let database: Database;
let store: Store;
let pubkey: string;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = await testDatabase.open();
  store = new Store(database.db);
});

afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  pubkey = newPubkey();
});

describe('a new quote', () => {
  it('is kept as it came, to the millisecond', async () => {
    const quote = unpaidQuote(pubkey, {
      createdAtMs: CREATED_AT_MS + 7,
      amountSat: 2_100_000_000_000_000,
    });
    expect(await store.quotes.insert(quote)).toEqual(expect.any(Number));
    expect(await store.watch.findHeld(NOWHERE_MINT, [quote.quoteId])).toEqual([
      {
        id: expect.any(Number),
        quoteId: quote.quoteId,
        pubkey,
        request: quote.request,
        paymentHash: quote.paymentHash,
        amountSat: 2_100_000_000_000_000,
        state: 'UNPAID',
        createdAtMs: CREATED_AT_MS + 7,
        expiresAtMs: CREATED_AT_MS + 7 + 3_600_000,
        paidAtMs: null,
        isWatched: true,
      },
    ]);
    expect(await store.quotes.findByVerifyToken(quote.verifyToken)).toEqual({
      id: expect.any(Number),
      request: quote.request,
      state: 'UNPAID',
    });
  });

  it('is not kept where the mint gave its id to another quote already', async () => {
    const quote = unpaidQuote(pubkey);
    await store.quotes.insert(quote);
    const impostor = unpaidQuote(newPubkey(), { quoteId: quote.quoteId });
    expect(await store.quotes.insert(impostor)).toBeNull();
    expect(await store.watch.findHeld(NOWHERE_MINT, [quote.quoteId])).toMatchObject([{ pubkey }]);
    expect(await store.quotes.findByVerifyToken(impostor.verifyToken)).toBeNull();
  });

  it('may have an id that another mint gave too', async () => {
    const quote = unpaidQuote(pubkey);
    const elsewhere = { ...unpaidQuote(pubkey, quote), mintUrl: 'https://other.example' };
    expect(await store.quotes.insert(quote)).toEqual(expect.any(Number));
    expect(await store.quotes.insert({ ...elsewhere, verifyToken: 'another' })).toEqual(
      expect.any(Number),
    );
  });

  it('is not listed before it is paid', async () => {
    await store.quotes.insert(unpaidQuote(pubkey));
    expect(await page()).toEqual({ quoteIds: [], total: 0 });
  });
});

describe('the list of paid quotes', () => {
  it('has the newest payment first and is read page by page', async () => {
    const oldestFirst = await keepPayments(database, pubkey, 7);
    const newestFirst = oldestFirst.toReversed();
    expect(await page({ limit: 3 })).toEqual({ quoteIds: newestFirst.slice(0, 3), total: 7 });
    expect(await page({ limit: 3, offset: 3 })).toEqual({
      quoteIds: newestFirst.slice(3, 6),
      total: 7,
    });
    expect(await page({ limit: 3, offset: 6 })).toEqual({
      quoteIds: newestFirst.slice(6),
      total: 7,
    });
  });

  it('has what a wallet needs of each', async () => {
    const [quoteId] = await keepPayments(database, pubkey, [
      { paidAtMs: FIRST_PAID_AT_MS + 1, amountSat: 5, state: 'ISSUED' },
    ]);
    const { quotes } = await store.quotes.listPaid(pubkey, {
      sinceSeconds: null,
      limit: 1,
      offset: 0,
    });
    expect(quotes).toEqual([
      {
        mintUrl: 'https://mint.example',
        quoteId,
        request: `lnbc1${quoteId}`,
        amountSat: 5,
        state: 'ISSUED',
        locked: false,
        createdAtMs: FIRST_PAID_AT_MS + 1 - 60_000,
        expiresAtMs: FIRST_PAID_AT_MS + 1 + 3_600_000,
        paidAtMs: FIRST_PAID_AT_MS + 1,
        comment: null,
        zapRequest: null,
      },
    ]);
  });

  it('is empty for a key that was never seen, and says nothing of others', async () => {
    await keepPayments(database, newPubkey(), 3);
    expect(await page()).toEqual({ quoteIds: [], total: 0 });
    expect(await page({ sinceSeconds: 0, offset: 1 })).toEqual({ quoteIds: [], total: 0 });
  });

  it('is empty behind its end, and still says how many there are', async () => {
    await keepPayments(database, pubkey, 3);
    for (const offset of [3, 4, 1_000_000_000, Number.MAX_SAFE_INTEGER]) {
      expect(await page({ offset }), String(offset)).toEqual({ quoteIds: [], total: 3 });
    }
  });

  it('begins, with since, strictly after that second to the fraction', async () => {
    const second = FIRST_PAID_AT_MS / 1000;
    const [onTheSecond, justAfter, before, later] = await keepPayments(database, pubkey, [
      { paidAtMs: FIRST_PAID_AT_MS },
      { paidAtMs: FIRST_PAID_AT_MS + 1 },
      { paidAtMs: FIRST_PAID_AT_MS + 999 },
      { paidAtMs: FIRST_PAID_AT_MS + 1000 },
    ]);
    expect(await page({ sinceSeconds: second - 1 })).toEqual({
      quoteIds: [later, before, justAfter, onTheSecond],
      total: 4,
    });
    expect(await page({ sinceSeconds: second })).toEqual({
      quoteIds: [later, before, justAfter],
      total: 3,
    });
    expect(await page({ sinceSeconds: second + 1 })).toEqual({ quoteIds: [], total: 0 });
  });

  it('counts, pages and ends within what since leaves', async () => {
    const newestFirst = (await keepPayments(database, pubkey, 10)).toReversed();
    const sinceSeconds = FIRST_PAID_AT_MS / 1000 + 5;
    expect(await page({ sinceSeconds, limit: 3 })).toEqual({
      quoteIds: newestFirst.slice(0, 3),
      total: 4,
    });
    expect(await page({ sinceSeconds, limit: 3, offset: 3 })).toEqual({
      quoteIds: newestFirst.slice(3, 4),
      total: 4,
    });
    expect(await page({ sinceSeconds, offset: 4 })).toEqual({ quoteIds: [], total: 4 });
  });

  it('takes any since that a client may send', async () => {
    await keepPayments(database, pubkey, 2);
    expect(await page({ sinceSeconds: 0 })).toMatchObject({ total: 2 });
    for (const sinceSeconds of [8_640_000_000_000, 8_640_000_000_001, Number.MAX_SAFE_INTEGER]) {
      expect(await page({ sinceSeconds }), String(sinceSeconds)).toEqual({
        quoteIds: [],
        total: 0,
      });
    }
  });
});

describe('the cost of a page', () => {
  it.each([
    ['before the database has counted its rows', false],
    ['after it has', true],
  ])('is the same at offset 0 and at offset 5,000, %s', async (_when, isAnalysed) => {
    await sql`insert into users (pubkey) select gen_random_uuid() from generate_series(1, 3000)`.execute(
      database.db,
    );
    await keepPayments(database, newPubkey(), 1_000);
    await keepPayments(database, pubkey, 5_050);
    if (isAnalysed) {
      await sql`analyze`.execute(database.db);
    }
    const first = await costOfPage({ offset: 0 });
    const last = await costOfPage({ offset: 5_000 });
    expect(last.rows).toBe(first.rows);
    // The page itself, and the recipient's counter.
    expect(first.rows).toBe(51);
    // Fifty rows and the way to them, of hundreds of pages; how many pages these are on is chance.
    expect(first.pages).toBeLessThan(30);
    expect(last.pages).toBeLessThan(30);

    const since = { sinceSeconds: FIRST_PAID_AT_MS / 1000 + 10 };
    const firstSince = await costOfPage({ ...since, offset: 0 });
    const lastSince = await costOfPage({ ...since, offset: 4_900 });
    expect(lastSince.rows).toBe(firstSince.rows);
    // Also the last payment before `since`, and the one before that, which could have the same time.
    expect(firstSince.rows).toBe(53);
  });

  function costOfPage(wanted: { sinceSeconds?: number; offset: number }) {
    return costOf(database.db, (db) =>
      new QuoteStore(db).listPaid(pubkey, { sinceSeconds: null, limit: 50, ...wanted }),
    );
  }
});

describe('changes', () => {
  it('record a payment, and later leave its time and place as they are', async () => {
    const quote = unpaidQuote(pubkey);
    await store.quotes.insert(quote);
    const id = await idOf(quote.quoteId);
    const paidAtMs = CREATED_AT_MS + 123;
    await store.transaction(async (tx) => {
      await tx.users.lockPaymentCounters([pubkey]);
      const payment = { paidAtMs, paidSeq: 1 };
      await tx.watch.applyChanges([{ id, state: 'PAID', watchUntilMs: paidAtMs + 5, payment }]);
      await tx.users.savePaymentCounters([{ pubkey, paidCount: 1, lastPaidAtMs: paidAtMs }]);
    });
    expect(await store.watch.listWatched(NOWHERE_MINT, 0, 10)).toMatchObject([
      { id, quoteId: quote.quoteId, state: 'PAID', paidAtMs },
    ]);
    await store.watch.applyChanges([{ id, state: 'ISSUED', watchUntilMs: null, payment: null }]);
    expect(await store.watch.findHeld(NOWHERE_MINT, [quote.quoteId])).toMatchObject([
      { state: 'ISSUED', paidAtMs, isWatched: false },
    ]);
    expect(await page()).toEqual({ quoteIds: [quote.quoteId], total: 1 });
    expect(await store.watch.listWatched(NOWHERE_MINT, 0, 10)).toEqual([]);
  });

  it('remove what the payer sent of a quote that expires, and the address group of any', async () => {
    const words = { addressGroup: 'group', comment: 'thanks', zapRequest: '{}' };
    const [expired, paid] = [unpaidQuote(pubkey, words), unpaidQuote(pubkey, words)];
    await store.quotes.insert(expired);
    await store.quotes.insert(paid);
    await store.watch.applyChanges([
      { id: await idOf(expired.quoteId), state: 'EXPIRED', watchUntilMs: null, payment: null },
      {
        id: await idOf(paid.quoteId),
        state: 'PAID',
        watchUntilMs: CREATED_AT_MS,
        payment: { paidAtMs: CREATED_AT_MS, paidSeq: 1 },
      },
    ]);
    const rows = await database.db
      .selectFrom('quotes')
      .select(['state', 'address_group', 'comment', 'zap_request', 'watch_until'])
      .orderBy('state')
      .execute();
    expect(rows).toEqual([
      {
        ...{ state: 'EXPIRED', address_group: null, comment: null, zap_request: null },
        watch_until: null,
      },
      {
        ...{ state: 'PAID', address_group: null, comment: 'thanks', zap_request: '{}' },
        watch_until: new Date(CREATED_AT_MS),
      },
    ]);
  });

  it('of nothing are nothing', async () => {
    await store.watch.applyChanges([]);
    await store.users.savePaymentCounters([]);
    expect(await store.users.lockPaymentCounters([])).toEqual([]);
  });

  it('that fail half way leave nothing behind, and tell nobody', async () => {
    const quote = unpaidQuote(pubkey);
    await store.quotes.insert(quote);
    const ear = await ChannelEar.open(database, 'store_test');
    const failing = store.transaction(async (tx) => {
      await tx.users.lockPaymentCounters([pubkey]);
      await tx.users.savePaymentCounters([{ pubkey, paidCount: 1, lastPaidAtMs: CREATED_AT_MS }]);
      await tx.notify('store_test', ['of a change that did not happen']);
      throw new Error('the process ends here');
    });
    await expect(failing).rejects.toThrow('the process ends here');
    await store.transaction((tx) => tx.notify('store_test', ['of one that did', 'and another']));
    expect(await ear.heard()).toEqual(['of one that did', 'and another']);
    expect(await store.users.find(pubkey)).toBeNull();
  });

  async function idOf(quoteId: string): Promise<number> {
    const [held] = await store.watch.findHeld(NOWHERE_MINT, [quoteId]);
    if (held === undefined) {
      throw new Error('there is no such quote');
    }
    return held.id;
  }
});

describe('payment counters', () => {
  it('begin at nothing for a key that was never seen, and are given out once each', async () => {
    const [first, second] = [newPubkey(), newPubkey()].sort();
    const counters = await store.users.lockPaymentCounters([second, first, second] as string[]);
    expect(counters).toEqual([
      { pubkey: first, paidCount: 0, lastPaidAtMs: null },
      { pubkey: second, paidCount: 0, lastPaidAtMs: null },
    ]);
  });

  it('are kept beside the settings of their recipient', async () => {
    await store.users.save(pubkey, { mintUrl: 'https://chosen.example' });
    await store.users.lockPaymentCounters([pubkey]);
    await store.users.savePaymentCounters([
      { pubkey, paidCount: 3_000_000_000, lastPaidAtMs: CREATED_AT_MS + 1 },
    ]);
    await store.users.save(pubkey, { lockQuotes: true });
    expect(await store.users.lockPaymentCounters([pubkey])).toEqual([
      { pubkey, paidCount: 3_000_000_000, lastPaidAtMs: CREATED_AT_MS + 1 },
    ]);
    expect(await store.users.find(pubkey)).toEqual({
      pubkey,
      name: null,
      mintUrl: 'https://chosen.example',
      lockQuotes: true,
    });
  });
});

describe('what a mint can do', () => {
  const INFO: MintInfo = {
    mintsBolt11Sat: true,
    minAmountSat: null,
    maxAmountSat: 5_000_000_000,
    locking: true,
    subscriptions: false,
    batchCheck: { maxBatchSize: 100 },
    restoresEcash: true,
    meltsBolt11Sat: true,
    takesDescription: true,
    takesDescriptionHash: true,
  };

  it('is recalled as it was last said', async () => {
    const mintUrl = 'https://remembered.example';
    expect(await store.mints.recallInfo(mintUrl)).toBeNull();
    await store.mints.rememberInfo(mintUrl, INFO, CREATED_AT_MS);
    expect(await store.mints.recallInfo(mintUrl)).toEqual(INFO);
    const changed = { ...INFO, locking: false, batchCheck: null };
    await store.mints.rememberInfo(mintUrl, changed, CREATED_AT_MS + 1);
    expect(await store.mints.recallInfo(mintUrl)).toEqual(changed);
  });

  it('keeps a rate limit for each route, whichever process learned it', async () => {
    const mintUrl = `https://${newPubkey().slice(0, 8)}.example`;
    const [create, check] = [
      { count: 20, isElastic: true },
      { count: 60, isElastic: false },
    ];
    await store.mints.rememberInfo(mintUrl, INFO, CREATED_AT_MS);
    await store.mints.writeRateLimit(mintUrl, 'create', create);
    await store.mints.writeRateLimit(mintUrl, 'check', check);
    expect(await store.mints.readRateLimits(mintUrl)).toEqual({ create, check });
    await store.mints.writeRateLimit(mintUrl, 'create', null);
    expect(await store.mints.readRateLimits(mintUrl)).toEqual({ check });
  });
});

describe('the database', () => {
  it('gives counts as numbers and times as dates', async () => {
    await keepPayments(database, pubkey, [{ paidAtMs: FIRST_PAID_AT_MS + 1, amountSat: 7 }]);
    const [row] = (
      await sql<Record<string, unknown>>`
        select quotes.id, quotes.amount_sat, quotes.paid_seq, quotes.paid_at, users.paid_count,
               (select count(*) from quotes) as how_many
        from quotes join users using (pubkey) where pubkey = ${pubkey}
      `.execute(database.db)
    ).rows;
    expect(row).toEqual({
      id: expect.any(Number),
      amount_sat: 7,
      paid_seq: 1,
      paid_at: new Date(FIRST_PAID_AT_MS + 1),
      paid_count: 1,
      how_many: 1,
    });
  });

  it('keeps what it has when it is opened again', async () => {
    const location = placeToOpenTwice(testDatabase.location);
    const first = await openDatabase(location, () => undefined);
    await new Store(first.db).users.save(pubkey, { lockQuotes: true });
    const applied = await migrationsOf(first);
    expect(applied).not.toEqual([]);
    await first.close();

    const again = await openDatabase(location, () => undefined);
    onTestFinished(() => again.close());
    expect(await migrationsOf(again)).toEqual(applied);
    expect(await new Store(again.db).users.find(pubkey)).toMatchObject({ lockQuotes: true });
  });

  /** Memory is gone when it is closed. */
  function placeToOpenTwice(location: DatabaseLocation): DatabaseLocation {
    if (hasServer) {
      return location;
    }
    const dataDir = mkdtempSync(path.join(tmpdir(), 'nutpost-store-'));
    onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
    return { kind: 'embedded', dataDir };
  }

  async function migrationsOf({ db }: Database): Promise<unknown[]> {
    return (await sql`select name, timestamp from kysely_migration order by name`.execute(db)).rows;
  }
});

async function page(wanted: { sinceSeconds?: number; limit?: number; offset?: number } = {}) {
  const { quotes, total } = await store.quotes.listPaid(pubkey, {
    sinceSeconds: null,
    limit: 50,
    offset: 0,
    ...wanted,
  });
  return { quoteIds: quotes.map((quote) => quote.quoteId), total };
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}
