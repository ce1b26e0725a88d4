import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { NO_ANSWER } from '../../src/domain/receipt-delivery.ts';
import type { Database } from '../../src/store/database.ts';
import { ReceiptDeliveryStore } from '../../src/store/receipt-delivery-store.ts';
import { Store } from '../../src/store/store.ts';
import { costOf } from '../helpers/query-cost.ts';
import { useDatabase } from '../helpers/use-database.ts';
import { countsAt, plantReceipts, relayRow, standingAt } from '../helpers/zap-outbox.ts';

/** The outbox of zap receipts, on either database as `store.test.ts`. */

const ONE = 'wss://one.example';
const TWO = 'wss://two.example';
const MADE_AT = 1_750_000_000_000;
const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;
const ALL = { after: '', lookAt: 1_000 };
const LOT = { maxRows: 100, maxBytes: 1_000_000 };
const REST = { failures: 1, restUntilMs: MADE_AT + 5_000, word: 'timed out', wentWell: false };
const WELL = { failures: 0, restUntilMs: null, word: null, wentWell: true };

let database: Database;
let store: Store;

useDatabase((opened) => {
  database = opened;
  store = new Store(opened.db);
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('relays').execute();
  await database.db.deleteFrom('watch_processes').execute();
  await store.leases.keepAlive('me');
  await store.leases.keepAlive('other');
});

const plant = (texts: readonly string[] | number, relays: readonly string[], atMs = MADE_AT) =>
  plantReceipts(database, { texts, relays, atMs });

async function dueFor(processId: string, nowMs: number): Promise<string[]> {
  const { relays } = await store.deliveries.dueRelays(processId, nowMs, ALL);
  return relays.map(({ url }) => url);
}

describe('the relays that receipts are due for', () => {
  it('are each there once, with the time since when they wait', async () => {
    expect(await dueFor('me', MADE_AT)).toEqual([]);
    await plant(3, [TWO, ONE], MADE_AT + 7);
    await plant(1, [TWO]);
    expect(await dueFor('me', MADE_AT - 1)).toEqual([]);
    const { relays, next } = await store.deliveries.dueRelays('me', MADE_AT + 7, ALL);
    const fresh = { failures: 0, hasServed: false };
    expect(relays).toEqual([
      { url: ONE, waitingSinceMs: MADE_AT + 7, ...fresh },
      { url: TWO, waitingSinceMs: MADE_AT, ...fresh },
    ]);
    expect(next).toBeNull();
  });

  it('are found by a look for each relay, however much is due there', async () => {
    const relays = Array.from({ length: 20 }, (_, index) => `wss://${index}.example`);
    await plant(300, relays);
    const idle = Array.from({ length: 500 }, (_, index) => `wss://idle-${index}.example`);
    await store.deliveries.claim('me', [...relays, ...idle], MADE_AT);
    await sql`analyze zap_receipt_deliveries, relays`.execute(database.db);
    const cost = await costOf(database.db, (db) =>
      new ReceiptDeliveryStore(db).dueRelays('me', MADE_AT, ALL),
    );
    // A delivery and a row of `relays` for each.
    expect(cost.rows).toBeLessThanOrEqual(2 * relays.length + 2);
    expect(cost.pages).toBeLessThan(12 * relays.length);
  });

  it('are found at that cost though the database has learnt that nothing is ever open', async () => {
    const relays = Array.from({ length: 20 }, (_, index) => `wss://${index}.example`);
    await plant(300, relays);
    await database.db
      .updateTable('zap_receipt_deliveries')
      .set({ state: 'accepted', next_try_at: null })
      .execute();
    await sql`analyze zap_receipt_deliveries, relays`.execute(database.db);
    await plant(300, relays);
    const cost = await costOf(database.db, (db) =>
      new ReceiptDeliveryStore(db).dueRelays('me', MADE_AT, ALL),
    );
    expect(cost.rows).toBeLessThanOrEqual(3 * relays.length + 2);
  });

  it('are looked at in parts, and each part goes on where the last one ended', async () => {
    const relays = ['a', 'b', 'c', 'd', 'e'].map((name) => `wss://${name}.example`);
    await plant(2, relays);
    const seen: string[] = [];
    let after: string | null = '';
    while (after !== null) {
      const part = await store.deliveries.dueRelays('me', MADE_AT, { after, lookAt: 2 });
      expect(part.relays.length).toBeLessThanOrEqual(2);
      seen.push(...part.relays.map(({ url }) => url));
      after = part.next;
    }
    expect(seen).toEqual(relays);
  });

  it('are found among some that are named, at a look for each', async () => {
    const relays = Array.from({ length: 100 }, (_, index) => `wss://${index}.example`);
    await plant(30, [...relays, ONE, TWO]);
    await plant(1, ['wss://later.example'], MADE_AT + 1);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    await store.deliveries.claim('other', [TWO], MADE_AT);
    await sql`analyze zap_receipt_deliveries, relays`.execute(database.db);
    const named = [TWO, 'wss://nobody.example', 'wss://later.example', ONE, 'wss://7.example'];
    const due = await store.deliveries.dueAmong('me', MADE_AT, named);
    const standing = { waitingSinceMs: MADE_AT, failures: 0, hasServed: false };
    expect(due).toEqual([
      { url: 'wss://7.example', ...standing },
      { url: ONE, ...standing },
    ]);
    expect(await store.deliveries.dueAmong('me', MADE_AT, [])).toEqual([]);
    const cost = await costOf(database.db, (db) =>
      new ReceiptDeliveryStore(db).dueAmong('me', MADE_AT, named),
    );
    expect(cost.rows).toBeLessThanOrEqual(2 * named.length + 2);
  });

  it('are not those that another process has, nor those that rest', async () => {
    await plant(1, [ONE, TWO]);
    expect(await store.deliveries.claim('other', [ONE], MADE_AT)).toEqual([ONE]);
    expect(await dueFor('me', MADE_AT)).toEqual([TWO]);
    await store.deliveries.endTurn('other', ONE, REST, MADE_AT);
    expect(await dueFor('me', MADE_AT + 4_999)).toEqual([TWO]);
    const { relays } = await store.deliveries.dueRelays('me', MADE_AT + 5_000, ALL);
    expect(relays[0]).toEqual({
      url: ONE,
      waitingSinceMs: MADE_AT + 5_000,
      failures: 1,
      hasServed: false,
    });
  });

  it('wait anew after each turn, so that those that have much take turns with the others', async () => {
    await plant(1, [ONE]);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    await store.deliveries.endTurn('me', ONE, WELL, MADE_AT + 20_000);
    const { relays } = await store.deliveries.dueRelays('me', MADE_AT + 20_000, ALL);
    expect(relays).toEqual([
      { url: ONE, waitingSinceMs: MADE_AT + 20_000, failures: 0, hasServed: true },
    ]);
  });

  it('do not rest by a clock that was ahead', async () => {
    await plant(1, [ONE]);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    const ahead = MADE_AT + HOUR_MS;
    const restUntilMs = ahead + 60_000;
    await store.deliveries.endTurn('me', ONE, { ...REST, restUntilMs }, ahead);
    expect(await dueFor('me', ahead)).toEqual([]);
    expect(await dueFor('me', MADE_AT)).toEqual([ONE]);
    expect(await store.deliveries.claim('other', [ONE], MADE_AT)).toEqual([ONE]);
  });
});

describe('a relay', () => {
  it('is one process’s at a time, and comes free as that gives it up', async () => {
    expect(await store.deliveries.claim('me', [TWO, ONE], MADE_AT)).toEqual([ONE, TWO]);
    expect(await store.deliveries.claim('other', [ONE, TWO], MADE_AT)).toEqual([]);
    expect(await store.deliveries.claim('me', [ONE], MADE_AT)).toEqual([ONE]);
    await store.deliveries.release('other', [ONE]);
    expect(await store.deliveries.claim('other', [ONE], MADE_AT)).toEqual([]);
    await store.deliveries.release('me', [ONE]);
    expect(await store.deliveries.claim('other', [ONE, TWO], MADE_AT)).toEqual([ONE]);
    await store.deliveries.releaseAll('me');
    expect(await store.deliveries.claim('other', [ONE, TWO], MADE_AT)).toEqual([ONE, TWO]);
  });

  it('comes free as its process is taken for dead', async () => {
    await store.deliveries.claim('me', [ONE], MADE_AT);
    await store.leases.leave('me');
    expect(await store.deliveries.claim('other', [ONE], MADE_AT)).toEqual([ONE]);
  });

  it('is not had by a process that does not count as alive', async () => {
    expect(await store.deliveries.claim('nobody', [ONE], MADE_AT)).toEqual([]);
    expect(await relayRow(database, ONE)).toBeUndefined();
  });

  it('is not had while it rests, and is free once it does', async () => {
    await store.deliveries.claim('me', [ONE], MADE_AT);
    await store.deliveries.endTurn('me', ONE, REST, MADE_AT);
    expect(await store.deliveries.claim('other', [ONE], MADE_AT + 4_999)).toEqual([]);
    expect(await store.deliveries.claim('other', [ONE], MADE_AT + 5_000)).toEqual([ONE]);
    expect(await relayRow(database, ONE)).toMatchObject({ failures: 1, last_word: 'timed out' });
  });

  it('is not put to rest by a process that has lost it', async () => {
    await store.deliveries.claim('other', [ONE], MADE_AT);
    await store.deliveries.endTurn('me', ONE, REST, MADE_AT);
    expect(await relayRow(database, ONE)).toMatchObject({
      owner: 'other',
      failures: 0,
      rest_until: null,
    });
  });
});

describe('what a relay is to be sent', () => {
  it('is by turns what is due the longest and what became due last, as it was signed', async () => {
    const [later] = await plant(1, [ONE], MADE_AT + 10);
    const [first, second] = await plant(['{"id":"11"}', '{"id" : "22"}'], [ONE]);
    await plant(1, [TWO]);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    expect(await store.deliveries.listDue('me', ONE, MADE_AT - 1, LOT)).toEqual([]);
    expect(await store.deliveries.listDue('me', ONE, MADE_AT, LOT)).toEqual([
      { id: first?.id, text: '{"id":"11"}', tries: 0, isSuspect: false, paymentHash: null },
      { id: second?.id, text: '{"id" : "22"}', tries: 0, isSuspect: false, paymentHash: null },
    ]);
    const all = await store.deliveries.listDue('me', ONE, MADE_AT + 10, LOT);
    expect(all.map(({ id }) => id)).toEqual([first?.id, later?.id, second?.id]);
  });

  it('is no more than was asked for, in number and in bytes, and at least one', async () => {
    const text = (id: number) => JSON.stringify({ id: String(id), content: 'x'.repeat(1_000) });
    await plant([text(1), text(2), text(3), text(4)], [ONE]);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    const ids = async (maxRows: number, maxBytes: number) =>
      (await store.deliveries.listDue('me', ONE, MADE_AT, { maxRows, maxBytes })).map(
        ({ id }) => id,
      );
    expect(await ids(3, 1_000_000)).toEqual(['1', '4', '2']);
    expect(await ids(100, 1_000_000)).toEqual(['1', '4', '2', '3']);
    expect(await ids(100, 2_500)).toEqual(['1', '4', '2']);
    expect(await ids(100, 2_000)).toEqual(['1', '4']);
    expect(await ids(100, 1)).toEqual(['1']);
  });

  it('has a new receipt among the first, however many somebody else heaped up there', async () => {
    await plant(300, [ONE]);
    const [receipt] = await plant(1, [ONE], MADE_AT + 1);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    const due = await store.deliveries.listDue('me', ONE, MADE_AT + 1, LOT);
    expect(due).toHaveLength(LOT.maxRows);
    expect(due[1]?.id).toBe(receipt?.id);
  });

  it('is suspect where the relay had no word for it the last time', async () => {
    const [mute, busy] = await plant(2, [ONE]);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    const retry = (receipt: { id: string } | undefined, word: string) => ({
      id: receipt?.id ?? '',
      state: 'open' as const,
      nextTryAtMs: MADE_AT,
      word,
    });
    await store.deliveries.record(
      ONE,
      [retry(mute, NO_ANSWER), retry(busy, 'error: busy')],
      MADE_AT,
    );
    const due = await store.deliveries.listDue('me', ONE, MADE_AT, LOT);
    expect(new Map(due.map(({ id, isSuspect }) => [id, isSuspect]))).toEqual(
      new Map([
        [mute?.id, true],
        [busy?.id, false],
      ]),
    );
  });

  it('is nothing for a process that does not have the relay', async () => {
    await plant(1, [ONE]);
    expect(await store.deliveries.listDue('me', ONE, MADE_AT, LOT)).toEqual([]);
    await store.deliveries.claim('other', [ONE], MADE_AT);
    expect(await store.deliveries.listDue('me', ONE, MADE_AT, LOT)).toEqual([]);
    expect(await store.deliveries.listDue('other', ONE, MADE_AT, LOT)).toHaveLength(1);
  });

  it('costs what it gives, however much else is due', async () => {
    const texts = Array.from({ length: 400 }, (_, id) =>
      JSON.stringify({ id: String(id), content: randomBytes(700).toString('hex') }),
    );
    await plant(texts, [ONE, TWO]);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    await sql`analyze zap_receipt_deliveries, zap_receipts`.execute(database.db);
    const cost = await costOf(database.db, (db) =>
      new ReceiptDeliveryStore(db).listDue('me', ONE, MADE_AT, { maxRows: 10, maxBytes: 5_000 }),
    );
    expect(cost.rows).toBeLessThan(30);
  });
});

describe('what came of receipts', () => {
  it('is written for the whole lot, and counts the tries', async () => {
    const [there, refused, later, unsent] = await plant(4, [ONE, TWO]);
    const ids = [there, refused, later].map((receipt) => receipt?.id ?? '');
    await store.deliveries.record(
      ONE,
      [
        { id: ids[0] ?? '', state: 'accepted', nextTryAtMs: null, word: '' },
        { id: ids[1] ?? '', state: 'refused', nextTryAtMs: null, word: 'blocked: no' },
        { id: ids[2] ?? '', state: 'open', nextTryAtMs: MADE_AT + 10_000, word: 'error: "\\ü⚡' },
      ],
      MADE_AT + 5,
    );
    const standing = await standingAt(database, ONE);
    const lastTry = { tries: 1, last_try_at: new Date(MADE_AT + 5) };
    expect(standing.get(ids[0] ?? '')).toMatchObject({
      ...lastTry,
      state: 'accepted',
      next_try_at: null,
      last_word: '',
    });
    expect(standing.get(ids[1] ?? '')).toMatchObject({
      ...lastTry,
      state: 'refused',
      next_try_at: null,
      last_word: 'blocked: no',
    });
    expect(standing.get(ids[2] ?? '')).toMatchObject({
      ...lastTry,
      state: 'open',
      next_try_at: new Date(MADE_AT + 10_000),
      last_word: 'error: "\\ü⚡',
    });
    expect(standing.get(unsent?.id ?? '')).toMatchObject({ state: 'open', tries: 0 });
    expect(await countsAt(database, TWO)).toEqual({ open: 4 });
  });

  it('is not undone by another process that heard something else', async () => {
    const [receipt] = await plant(1, [ONE]);
    const id = receipt?.id ?? '';
    const say = (state: 'accepted' | 'refused' | 'open') =>
      store.deliveries.record(
        ONE,
        [{ id, state, nextTryAtMs: state === 'open' ? MADE_AT + 1 : null, word: state }],
        MADE_AT,
      );
    const stands = async () => (await standingAt(database, ONE)).get(id);
    await say('refused');
    await say('open');
    expect(await stands()).toMatchObject({ state: 'refused', tries: 1 });
    // That the relay has it is true, whoever was told so.
    await say('accepted');
    expect(await stands()).toMatchObject({ state: 'accepted', tries: 2 });
    await say('open');
    await say('refused');
    expect(await stands()).toMatchObject({ state: 'accepted', tries: 2, last_word: 'accepted' });
  });
});

describe('what nothing came of', () => {
  it('is given up once its time is over, at a relay that rests or that nobody has, too', async () => {
    await plant(3, [ONE, TWO]);
    await plant(1, [ONE], MADE_AT + DAY_MS);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    const end = MADE_AT + 2 * DAY_MS;
    expect(await store.deliveries.giveUpOverdue(end - 1, 100)).toBe(0);
    expect(await store.deliveries.giveUpOverdue(end, 4)).toBe(4);
    expect(await store.deliveries.giveUpOverdue(end, 4)).toBe(2);
    expect(await countsAt(database, ONE)).toEqual({ given_up: 3, open: 1 });
    expect(await countsAt(database, TWO)).toEqual({ given_up: 3 });
  });

  it('keeps, where it was never sent, why the relay got nothing', async () => {
    await plant(1, [ONE]);
    await store.deliveries.claim('me', [ONE], MADE_AT);
    await store.deliveries.endTurn('me', ONE, REST, MADE_AT);
    await store.deliveries.giveUpOverdue(MADE_AT + 2 * DAY_MS, 10);
    const [delivery] = (await standingAt(database, ONE)).values();
    expect(delivery).toMatchObject({ state: 'given_up', tries: 0, last_word: 'timed out' });
  });

  it('is not given up by a clock that jumped ahead', async () => {
    await plant(1, [ONE], Date.now() - HOUR_MS);
    expect(await store.deliveries.giveUpOverdue(Date.now() + 10 * DAY_MS, 100)).toBe(0);
    expect(await countsAt(database, ONE)).toEqual({ open: 1 });
  });
});

describe('what was planned by a clock that was ahead', () => {
  it('is due at once, and all else stays as it is', async () => {
    const ahead = MADE_AT + 30 * DAY_MS;
    const [made] = await plant(1, [ONE], ahead);
    const [tried, planned] = await plant(2, [ONE]);
    const retry = (receipt: { id: string } | undefined, nextTryAtMs: number, nowMs: number) =>
      store.deliveries.record(
        ONE,
        [{ id: receipt?.id ?? '', state: 'open', nextTryAtMs, word: 'error: later' }],
        nowMs,
      );
    await retry(tried, ahead + HOUR_MS, ahead);
    await retry(planned, MADE_AT + HOUR_MS, MADE_AT);
    expect(await store.deliveries.pullInFromFuture(MADE_AT, 1)).toBe(1);
    expect(await store.deliveries.pullInFromFuture(MADE_AT, 100)).toBe(1);
    const standing = await standingAt(database, ONE);
    const nextTryOf = (id: string | undefined) => standing.get(id ?? '')?.next_try_at?.getTime();
    expect(nextTryOf(made?.id)).toBe(MADE_AT);
    expect(nextTryOf(tried?.id)).toBe(MADE_AT);
    expect(nextTryOf(planned?.id)).toBe(MADE_AT + HOUR_MS);
    expect(await store.deliveries.pullInFromFuture(MADE_AT, 100)).toBe(0);
  });
});
