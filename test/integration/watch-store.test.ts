import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { QuoteEventStore } from '../../src/store/quote-event-store.ts';
import { QuoteWatchStore, type WatchedQuote } from '../../src/store/quote-watch-store.ts';
import { Store } from '../../src/store/store.ts';
import { keepPayments } from '../helpers/paid-quotes.ts';
import { costOf } from '../helpers/query-cost.ts';
import { CREATED_AT_MS, NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** What the watcher reads and writes, on either database like `store.test.ts`. */

let database: Database;
let store: Store;
let pubkey: string;

useDatabase((opened) => {
  database = opened;
  store = new Store(opened.db);
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('watch_processes').execute();
  pubkey = randomBytes(32).toString('hex');
});

describe('watched mints', () => {
  it('are listed once each, with their newest watched quote', async () => {
    expect(await store.watch.watchedMints()).toEqual([]);
    const b = await keep('https://b.example', 3);
    const a = await keep('https://a.example', 1);
    await keepPayments(database, pubkey, 3);
    await endWatch(b.at(-1));
    expect(await store.watch.watchedMints()).toEqual([
      { mintUrl: 'https://a.example', newestId: a[0]?.id, owner: null },
      { mintUrl: 'https://b.example', newestId: b[1]?.id, owner: null },
    ]);
  });

  it('are found with two index entries each, however many quotes they have', async () => {
    await keep('https://a.example', 300);
    await keep('https://b.example', 300);
    await sql`vacuum analyze quotes`.execute(database.db);
    const cost = await costOf(database.db, (db) => new QuoteWatchStore(db).watchedMints());
    // PostgreSQL 15 rounds the averages of the loops.
    expect(cost.rows).toBeLessThanOrEqual(6);
    expect(cost.pages).toBeLessThan(30);
  });
});

describe('the watched quotes of a mint', () => {
  it('are listed in the order of their rows, a page at a time', async () => {
    const [first, second, third, fourth] = await keep(NOWHERE_MINT, 4);
    await keep('https://other.example', 1);
    await keepPayments(database, pubkey, 3);
    await endWatch(second);
    const list = (afterId: number, limit: number) =>
      store.watch.listWatched(NOWHERE_MINT, afterId, limit);
    expect(await list(0, 2)).toEqual([first, third]);
    expect(await list(third?.id ?? 0, 2)).toEqual([fourth]);
    expect(await list(fourth?.id ?? 0, 2)).toEqual([]);
  });

  it('are found without reading other rows', async () => {
    await keep('https://other.example', 300);
    const earlier = await keep(NOWHERE_MINT, 20);
    const [newest] = await keep(NOWHERE_MINT, 1);
    await keep('https://other.example', 300);
    await sql`analyze quotes`.execute(database.db);
    const afterId = earlier.at(-1)?.id ?? 0;
    expect(await store.watch.listWatched(NOWHERE_MINT, afterId, 1_000)).toEqual([newest]);
    const cost = await costOf(database.db, (db) =>
      new QuoteWatchStore(db).listWatched(NOWHERE_MINT, afterId, 1_000),
    );
    expect(cost.rows).toBeLessThanOrEqual(1);
    expect(cost.pages).toBeLessThan(10);
  });
});

describe('the history of a quote', () => {
  const state = { kind: 'state', from: 'UNPAID', to: 'PAID', source: 'poll' } as const;

  it('is kept in order, with the newest of each kind', async () => {
    const id = await aQuote();
    const other = await aQuote();
    await store.events.add([
      { id, pubkey, atMs: CREATED_AT_MS + 7, ...state },
      { id: other, pubkey, atMs: CREATED_AT_MS + 8, kind: 'told', sockets: 9 },
    ]);
    for (let index = 1; index <= 30; index += 1) {
      const atMs = CREATED_AT_MS + 8 + index;
      await store.events.add([{ id, pubkey, atMs, kind: 'told', sockets: index }]);
    }
    const events = await store.events.list(id);
    expect(events[0]).toEqual({ atMs: CREATED_AT_MS + 7, ...state });
    expect(events.slice(1)).toEqual(
      Array.from({ length: 20 }, (_, index) => ({
        atMs: CREATED_AT_MS + 19 + index,
        kind: 'told',
        sockets: 11 + index,
      })),
    );
    expect(await store.events.list(other)).toHaveLength(1);
  });

  it('returns to its bound after many events of a kind came at once', async () => {
    const id = await aQuote();
    const told = (sockets: number) => ({
      ...{ id, pubkey, atMs: CREATED_AT_MS, kind: 'told' as const, sockets },
    });
    await store.events.add(Array.from({ length: 30 }, () => told(1)));
    await store.events.add([told(2), told(2)]);
    const sockets = (await store.events.list(id)).map((each) => 'sockets' in each && each.sockets);
    expect(sockets).toEqual([...Array(18).fill(1), 2, 2]);
  });

  it('takes events of the same quotes from many at once, in any order', async () => {
    const ids: number[] = [];
    for (let index = 0; index < 5; index += 1) {
      ids.push(await aQuote());
    }
    const told = (id: number) => ({
      ...{ id, pubkey, atMs: CREATED_AT_MS, kind: 'told' as const, sockets: 1 },
    });
    for (let round = 0; round < 4; round += 1) {
      await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          store.events.add((index % 2 === 0 ? ids : ids.toReversed()).map(told)),
        ),
      );
    }
    // What came in the same moment was not seen to be too many; the next finds it.
    await store.events.add(ids.map(told));
    for (const id of ids) {
      expect(await store.events.list(id)).toHaveLength(20);
    }
  });

  it('is added to without reading the history of other quotes', async () => {
    const [busy, ...others] = await Promise.all(Array.from({ length: 30 }, () => aQuote()));
    const told = (id = 0) => ({
      ...{ id, pubkey, atMs: CREATED_AT_MS, kind: 'told' as const, sockets: 1 },
    });
    await store.events.add(others.flatMap((id) => Array.from({ length: 20 }, () => told(id))));
    await store.events.add(Array.from({ length: 10 }, () => told(busy)));
    await sql`analyze quote_events`.execute(database.db);
    const cost = await costOf(database.db, (db) => new QuoteEventStore(db).add([told(busy)]));
    expect(cost.rows).toBeLessThanOrEqual(15);
  });

  it('has the last change of a quote that changed often', async () => {
    const [quoteId = ''] = await keepPayments(database, pubkey, 1);
    const id = await idOf(quoteId);
    for (let index = 0; index < 24; index += 1) {
      await store.events.add([{ id, pubkey, atMs: CREATED_AT_MS + index, ...state }]);
    }
    const issued = { ...state, from: 'PAID', to: 'ISSUED' } as const;
    await store.events.add([{ id, pubkey, atMs: CREATED_AT_MS + 24, ...issued }]);
    expect((await store.events.list(id)).at(-1)).toEqual({ atMs: CREATED_AT_MS + 24, ...issued });
    expect(await store.events.changedSince(CREATED_AT_MS + 24, [pubkey])).toEqual([
      { id, pubkey, quoteId },
    ]);
  });

  it('tells which listed quotes of given recipients changed since a time', async () => {
    const [quoteId = ''] = await keepPayments(database, pubkey, 1);
    const id = await idOf(quoteId);
    const open = await aQuote();
    await store.events.add([
      { id, pubkey, atMs: CREATED_AT_MS, ...state },
      { id: open, pubkey, atMs: CREATED_AT_MS, ...state },
    ]);
    expect(await store.events.changedSince(CREATED_AT_MS, [pubkey])).toEqual([
      { id, pubkey, quoteId },
    ]);
    expect(await store.events.changedSince(CREATED_AT_MS + 1, [pubkey])).toEqual([]);
    expect(await store.events.changedSince(CREATED_AT_MS, ['ff'])).toEqual([]);
  });

  it('is pruned when it is old, in batches', async () => {
    const id = await aQuote();
    for (const atMs of [1, 2, 3, 4]) {
      await store.events.add([{ id, pubkey, atMs: CREATED_AT_MS + atMs, ...state }]);
    }
    expect(await store.events.prune(CREATED_AT_MS + 4, 2)).toBe(true);
    expect(await store.events.prune(CREATED_AT_MS + 4, 2)).toBe(false);
    expect(await store.events.list(id)).toMatchObject([{ atMs: CREATED_AT_MS + 4 }]);
  });

  async function aQuote(): Promise<number> {
    return (await store.quotes.insert(unpaidQuote(pubkey))) ?? 0;
  }
});

describe('a mint', () => {
  const MINTS = ['https://a.example', 'https://b.example'];

  it('is watched by the process that claims it first, until that process leaves', async () => {
    expect(await store.leases.keepAlive('one')).toBe(false);
    expect(await store.leases.keepAlive('one')).toBe(true);
    await store.leases.keepAlive('other');
    expect(await store.leases.countProcesses()).toBe(2);
    expect(await store.leases.claim('one', MINTS.slice(0, 1))).toEqual(MINTS.slice(0, 1));
    expect(await store.leases.claim('other', MINTS)).toEqual(MINTS.slice(1));
    await store.quotes.insert(unpaidQuote(pubkey, { mintUrl: 'https://a.example' }));
    expect(await store.watch.watchedMints()).toMatchObject([{ owner: 'one' }]);
    await store.leases.leave('one');
    expect(await store.watch.watchedMints()).toMatchObject([{ owner: null }]);
    expect(await store.leases.claim('other', MINTS)).toEqual(MINTS.slice(0, 1));
  });

  it('is free again when its own process releases it', async () => {
    await store.leases.keepAlive('one');
    await store.leases.claim('one', MINTS);
    await store.leases.release('other', 'https://a.example');
    expect(await store.leases.claim('one', MINTS)).toEqual([]);
    await store.leases.release('one', 'https://a.example');
    expect(await store.leases.claim('one', MINTS)).toEqual(['https://a.example']);
  });

  it('cannot be claimed by a process that is not known to be alive', async () => {
    expect(await store.leases.claim('stranger', MINTS)).toEqual([]);
  });

  it('is free when its process did not renew its lease', async () => {
    await store.leases.keepAlive('dead');
    await store.leases.claim('dead', MINTS);
    await database.db
      .updateTable('watch_processes')
      .set({ alive_until: sql<Date>`clock_timestamp() - interval '1 ms'` })
      .execute();
    await store.leases.keepAlive('one');
    expect(await store.leases.countProcesses()).toBe(1);
    expect(await store.leases.claim('one', MINTS)).toEqual(MINTS);
    expect(await store.leases.keepAlive('dead')).toBe(false);
  });

  it('stays with its process if the database was away for long and no other process claimed it', async () => {
    await store.leases.keepAlive('one');
    await store.leases.claim('one', MINTS);
    await setAliveUntil('one', '-1 hour');
    expect(await store.leases.keepAlive('one')).toBe(true);
    expect(await store.leases.claim('one', MINTS)).toEqual([]);
    await store.leases.keepAlive('other');
    expect(await store.leases.countProcesses()).toBe(2);
  });

  it('is free when a dead process has a lease in the future because the clock went back', async () => {
    await store.leases.keepAlive('dead');
    await store.leases.claim('dead', MINTS);
    await setAliveUntil('dead', '1 hour');
    await store.leases.keepAlive('one');
    expect(await store.leases.claim('one', MINTS)).toEqual(MINTS);
    expect(await store.leases.countProcesses()).toBe(1);
  });

  it('stays with a live process whose lease is in the future because the clock went back', async () => {
    await store.leases.keepAlive('one');
    await store.leases.claim('one', MINTS);
    await setAliveUntil('one', '1 hour');
    expect(await store.leases.keepAlive('one')).toBe(true);
    await store.leases.keepAlive('other');
    expect(await store.leases.claim('other', MINTS)).toEqual([]);
  });

  /** @param fromNow an interval, as PostgreSQL reads it */
  async function setAliveUntil(processId: string, fromNow: string): Promise<void> {
    await database.db
      .updateTable('watch_processes')
      .set({ alive_until: sql<Date>`clock_timestamp() + ${fromNow}::interval` })
      .where('id', '=', processId)
      .execute();
  }
});

/** Inserts unpaid quotes. */
async function keep(mintUrl: string, count: number): Promise<WatchedQuote[]> {
  const watched: WatchedQuote[] = [];
  for (let index = 0; index < count; index += 1) {
    const quote = unpaidQuote(pubkey, { mintUrl });
    const { quoteId, createdAtMs, expiresAtMs } = quote;
    const id = (await store.quotes.insert(quote)) ?? 0;
    watched.push({ id, quoteId, state: 'UNPAID', createdAtMs, expiresAtMs, paidAtMs: null });
  }
  return watched;
}

async function endWatch(quote: WatchedQuote | undefined): Promise<void> {
  await store.watch.applyChanges([
    { id: quote?.id ?? 0, state: 'EXPIRED', watchUntilMs: null, payment: null },
  ]);
}

/** The row of a quote of `keepPayments`. */
async function idOf(quoteId: string): Promise<number> {
  const [held] = await store.watch.findHeld('https://mint.example', [quoteId]);
  return held?.id ?? 0;
}
