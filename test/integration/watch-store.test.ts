import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { orderOfTurn } from '../../src/domain/check-turns.ts';
import {
  CHECK_CLASS,
  type CheckClass,
  UNCOVERED_WITHIN_MS,
} from '../../src/domain/poll-schedule.ts';
import type { Database } from '../../src/store/database.ts';
import { QuoteEventStore } from '../../src/store/quote-event-store.ts';
import { QuoteWatchStore } from '../../src/store/quote-watch-store.ts';
import { Store } from '../../src/store/store.ts';
import { keepPayments } from '../helpers/paid-quotes.ts';
import { costOf } from '../helpers/query-cost.ts';
import { CREATED_AT_MS, dueAt, NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** What the watcher reads and keeps, on either database as `store.test.ts`. */

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

describe('what is to be watched', () => {
  it('is each mint once, with the time at which its first quote is due', async () => {
    expect(await store.watch.watchedMints()).toEqual([]);
    await keep('https://b.example', [30, 10, 20]);
    await keep('https://a.example', [50]);
    await keep('https://c.example', [40, 60]);
    await keepPayments(database, pubkey, 3);
    expect(await store.watch.watchedMints()).toEqual([
      { mintUrl: 'https://a.example', nextDueAtMs: CREATED_AT_MS + 50, owner: null },
      { mintUrl: 'https://b.example', nextDueAtMs: CREATED_AT_MS + 10, owner: null },
      { mintUrl: 'https://c.example', nextDueAtMs: CREATED_AT_MS + 40, owner: null },
    ]);
  });

  it('is found by one look for each mint, however many quotes it has', async () => {
    const many = Array.from({ length: 300 }, (_, index) => index);
    await keep('https://a.example', many);
    await keep('https://b.example', many);
    const cost = await costOf(database.db, (db) => new QuoteWatchStore(db).watchedMints());
    // One row for each; PostgreSQL 15 rounds the averages of the loops.
    expect(cost.rows).toBeLessThanOrEqual(3);
    expect(cost.pages).toBeLessThan(20);
  });

  it('is due, the longest due first, as many as wanted', async () => {
    const [third, first, second, later] = await keep(NOWHERE_MINT, [30, 10, 20, 41]);
    await keep('https://other.example', [5]);
    const due = (ms: number, limit = 10) =>
      store.watch.listDue(NOWHERE_MINT, CREATED_AT_MS + ms, limit, orderOfTurn(0));
    const ids = async (ms: number, limit?: number) =>
      (await due(ms, limit)).map((quote) => quote.quoteId);
    expect(await ids(9)).toEqual([]);
    expect(await due(10)).toEqual([{ quoteId: first, createdAtMs: CREATED_AT_MS }]);
    expect(await ids(40)).toEqual([first, second, third]);
    expect(await ids(40, 2)).toEqual([first, second]);
    expect(await ids(41)).toEqual([first, second, third, later]);
  });

  it('is the newest quotes that are watched, the newest last', async () => {
    const [, second, third] = await keep(NOWHERE_MINT, [30, 20, 10]);
    await keep('https://other.example', [5]);
    await keepPayments(database, pubkey, 3);
    expect(await store.watch.listWatched(NOWHERE_MINT, 2)).toEqual([second, third]);
  });

  it('is found among the newest without a walk through those of other mints', async () => {
    const [watched] = await keep(NOWHERE_MINT, [1]);
    await keep(
      'https://other.example',
      Array.from({ length: 300 }, (_, index) => index),
    );
    await sql`analyze quotes`.execute(database.db);
    expect(await store.watch.listWatched(NOWHERE_MINT, 1_000)).toEqual([watched]);
    const cost = await costOf(database.db, (db) =>
      new QuoteWatchStore(db).listWatched(NOWHERE_MINT, 1_000),
    );
    expect(cost.rows).toBeLessThanOrEqual(1);
    expect(cost.pages).toBeLessThan(10);
  });

  /** @param dueAfterMs one quote for each, due so long after its creation */
  async function keep(mintUrl: string, dueAfterMs: number[]): Promise<string[]> {
    const quotes = dueAfterMs.map((ms) =>
      unpaidQuote(pubkey, { mintUrl, nextCheck: dueAt(CREATED_AT_MS + ms) }),
    );
    for (const quote of quotes) {
      await store.quotes.insert(quote);
    }
    return quotes.map((quote) => quote.quoteId);
  }
});

describe('what is due', () => {
  const { soon, next, rarely } = CHECK_CLASS;

  it('comes by class in the order of the turn, and none is left out', async () => {
    const plans = [
      dueAt(CREATED_AT_MS, rarely),
      dueAt(CREATED_AT_MS + 1, next),
      dueAt(CREATED_AT_MS + 2, soon),
    ];
    const quotes = plans.map((nextCheck) => unpaidQuote(pubkey, { nextCheck }));
    for (const quote of quotes) {
      await store.quotes.insert(quote);
    }
    const [old, middle, young] = quotes.map((quote) => quote.quoteId);
    const ids = async (order: CheckClass[], limit = 10) =>
      (await store.watch.listDue(NOWHERE_MINT, CREATED_AT_MS + 2, limit, order)).map(
        (due) => due.quoteId,
      );
    expect(await ids([soon, next, rarely])).toEqual([young, middle, old]);
    expect(await ids([rarely, soon, next])).toEqual([old, young, middle]);
    expect(await ids([next, soon, rarely], 1)).toEqual([middle]);
    expect(await store.watch.watchedMints()).toMatchObject([{ nextDueAtMs: CREATED_AT_MS }]);
  });

  it('costs what it gives, however much else is due', async () => {
    const quotes = Array.from({ length: 300 }, () => unpaidQuote(pubkey));
    for (const quote of quotes) {
      await store.quotes.insert(quote);
    }
    const cost = await costOf(database.db, (db) =>
      new QuoteWatchStore(db).listDue(NOWHERE_MINT, CREATED_AT_MS, 5, orderOfTurn(0)),
    );
    expect(cost.rows).toBeLessThanOrEqual(5);
    expect(cost.pages).toBeLessThan(30);
  });

  it('is planned anew for quotes that are as they were, and left for one that moved on', async () => {
    const [still, moved] = [unpaidQuote(pubkey), unpaidQuote(pubkey)];
    await store.quotes.insert(still);
    await store.quotes.insert(moved);
    await store.watch.applyChanges(
      [
        {
          id: await idOf(moved.quoteId),
          state: 'PAID',
          nextCheck: dueAt(CREATED_AT_MS + 10),
          payment: { paidAtMs: CREATED_AT_MS, paidSeq: 1 },
        },
      ],
      CREATED_AT_MS,
    );
    const nextCheck = dueAt(CREATED_AT_MS + 99);
    await store.watch.reschedule(
      [
        { id: await idOf(moved.quoteId), state: 'UNPAID', nextCheck },
        { id: await idOf(still.quoteId), state: 'UNPAID', nextCheck },
      ],
      CREATED_AT_MS + 5,
    );
    expect(await dueIds(98)).toEqual([moved.quoteId]);
    expect(await dueIds(99)).toEqual([moved.quoteId, still.quoteId]);
    const checkedAtMs = CREATED_AT_MS + 5;
    expect(await store.watch.findHeld(NOWHERE_MINT, [still.quoteId])).toMatchObject([
      { checkedAtMs },
    ]);
  });

  it('comes sooner where a socket that was relied on is gone, each class in its own time', async () => {
    const quotes = [soon, next, rarely].map((checkClass) =>
      unpaidQuote(pubkey, { nextCheck: dueAt(CREATED_AT_MS + 12 * 3_600_000, checkClass) }),
    );
    const near = unpaidQuote(pubkey, { nextCheck: dueAt(CREATED_AT_MS + 1_000) });
    for (const quote of [...quotes, near]) {
      await store.quotes.insert(quote);
    }
    await store.watch.pullInUncovered(NOWHERE_MINT, CREATED_AT_MS);
    const [young, middle, old] = quotes.map((quote) => quote.quoteId);
    expect(await dueIds(1_000)).toEqual([near.quoteId]);
    expect(await dueIds(UNCOVERED_WITHIN_MS[soon])).toEqual([near.quoteId, young]);
    expect(await dueIds(UNCOVERED_WITHIN_MS[next])).toEqual([near.quoteId, young, middle]);
    expect(await dueIds(UNCOVERED_WITHIN_MS[rarely])).toEqual([near.quoteId, young, middle, old]);
  });

  it('comes at once where it was planned by a clock that was ahead', async () => {
    const hourMs = 3_600_000;
    const ahead = unpaidQuote(pubkey, { createdAtMs: CREATED_AT_MS + hourMs });
    const looked = unpaidQuote(pubkey);
    const postponed = unpaidQuote(pubkey);
    const right = unpaidQuote(pubkey, { nextCheck: dueAt(CREATED_AT_MS + hourMs, rarely) });
    for (const quote of [ahead, looked, postponed, right]) {
      await store.quotes.insert(quote);
    }
    await store.watch.postpone(
      NOWHERE_MINT,
      [postponed.quoteId],
      CREATED_AT_MS + 365 * 24 * hourMs,
    );
    const nextCheck = dueAt(CREATED_AT_MS + 2 * hourMs);
    await store.watch.reschedule(
      [{ id: await idOf(looked.quoteId), state: 'UNPAID', nextCheck }],
      CREATED_AT_MS + hourMs,
    );
    expect(await dueIds(10)).toEqual([]);
    expect(await store.watch.pullInFromFuture(NOWHERE_MINT, CREATED_AT_MS + 10)).toBe(3);
    expect((await dueIds(10)).toSorted()).toEqual(
      [ahead.quoteId, looked.quoteId, postponed.quoteId].toSorted(),
    );
    expect(await store.watch.pullInFromFuture(NOWHERE_MINT, CREATED_AT_MS + 10)).toBe(0);
  });
});

describe('the history of a quote', () => {
  const state = { kind: 'state', from: 'UNPAID', to: 'PAID', source: 'poll' } as const;

  it('is kept in its order, the newest of each kind', async () => {
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

  it('comes back to its bound where many of a kind came at once', async () => {
    const id = await aQuote();
    const told = (sockets: number) => ({
      ...{ id, pubkey, atMs: CREATED_AT_MS, kind: 'told' as const, sockets },
    });
    await store.events.add(Array.from({ length: 30 }, () => told(1)));
    await store.events.add([told(2), told(2)]);
    const sockets = (await store.events.list(id)).map((each) => 'sockets' in each && each.sockets);
    expect(sockets).toEqual([...Array(18).fill(1), 2, 2]);
  });

  it('may be added to for the same quotes by many at once, in any order', async () => {
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

  it('costs no more to add to than what there is of its quote', async () => {
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

  it('tells of the last change of a quote that changed to and fro', async () => {
    const [quoteId = ''] = await keepPayments(database, pubkey, 1);
    const id = await idOf(quoteId, 'https://mint.example');
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

  it('tells which listed quotes of some recipients changed since a time', async () => {
    const [quoteId = ''] = await keepPayments(database, pubkey, 1);
    const id = await idOf(quoteId, 'https://mint.example');
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

  it('is forgotten when it is old, a lot at a time', async () => {
    const id = await aQuote();
    for (const atMs of [1, 2, 3, 4]) {
      await store.events.add([{ id, pubkey, atMs: CREATED_AT_MS + atMs, ...state }]);
    }
    expect(await store.events.prune(CREATED_AT_MS + 4, 2)).toBe(true);
    expect(await store.events.prune(CREATED_AT_MS + 4, 2)).toBe(false);
    expect(await store.events.list(id)).toMatchObject([{ atMs: CREATED_AT_MS + 4 }]);
  });

  async function aQuote(): Promise<number> {
    const quote = unpaidQuote(pubkey);
    await store.quotes.insert(quote);
    return idOf(quote.quoteId);
  }
});

describe('a mint', () => {
  const MINTS = ['https://a.example', 'https://b.example'];

  it('is watched by the process that was first, until it takes leave', async () => {
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

  it('is free again when it is given up, by its own process alone', async () => {
    await store.leases.keepAlive('one');
    await store.leases.claim('one', MINTS);
    await store.leases.release('other', 'https://a.example');
    expect(await store.leases.claim('one', MINTS)).toEqual([]);
    await store.leases.release('one', 'https://a.example');
    expect(await store.leases.claim('one', MINTS)).toEqual(['https://a.example']);
  });

  it('cannot be had by a process that is not known to be alive', async () => {
    expect(await store.leases.claim('stranger', MINTS)).toEqual([]);
  });

  it('is free when its process did not say for long that it is alive', async () => {
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

  it('stays with its process where the database was away for long and nobody took it', async () => {
    await store.leases.keepAlive('one');
    await store.leases.claim('one', MINTS);
    await setAliveUntil('one', '-1 hour');
    expect(await store.leases.keepAlive('one')).toBe(true);
    expect(await store.leases.claim('one', MINTS)).toEqual([]);
    await store.leases.keepAlive('other');
    expect(await store.leases.countProcesses()).toBe(2);
  });

  it('is free when its dead process has long to live by a clock that went back', async () => {
    await store.leases.keepAlive('dead');
    await store.leases.claim('dead', MINTS);
    await setAliveUntil('dead', '1 hour');
    await store.leases.keepAlive('one');
    expect(await store.leases.claim('one', MINTS)).toEqual(MINTS);
    expect(await store.leases.countProcesses()).toBe(1);
  });

  it('stays with a process that is alive by a clock that went back, its own', async () => {
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

/** Ids of the quotes that are due so long after the tests' first moment, the longest due first. */
async function dueIds(ms: number): Promise<string[]> {
  const due = await store.watch.listDue(NOWHERE_MINT, CREATED_AT_MS + ms, 10, orderOfTurn(0));
  return due.map((quote) => quote.quoteId);
}

async function idOf(quoteId: string, mintUrl = NOWHERE_MINT): Promise<number> {
  const [held] = await store.watch.findHeld(mintUrl, [quoteId]);
  if (held === undefined) {
    throw new Error('there is no such quote');
  }
  return held.id;
}
