import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { MintInfo } from '../../src/mints/mint-info.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';
import { CREATED_AT_MS, NOWHERE_MINT, newPubkey, unpaidQuote } from '../helpers/quotes.ts';
import { countsAt, plantReceipts, standingAt } from '../helpers/zap-outbox.ts';

/** What only the stores can show; the rest is tested through the service. Runs on either database. */

const SECOND_MS = 1_000;
const DAY_MS = 24 * 60 * 60 * SECOND_MS;

const database = useDatabase();
let store: Store;
let pubkey: string;

beforeAll(() => {
  store = new Store(database.db);
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('relays').execute();
  await database.db.deleteFrom('watch_processes').execute();
  pubkey = newPubkey();
});

it('imports any number of quotes at once: npubcash may list thousands of payments in one second', async () => {
  const quotes = Array.from({ length: 5_000 }, (_, index) => ({
    ...unpaidQuote(pubkey),
    payment: { paidAtMs: CREATED_AT_MS + index, paidSeq: index + 1 },
    state: 'PAID' as const,
  }));
  expect(await store.npubcash.addQuotes(quotes)).toHaveLength(5_000);
});

describe('recorded changes', () => {
  it('remove what the payer sent of a quote that expires, and the address group of any', async () => {
    const words = { addressGroup: 'group', comment: 'thanks', zapRequest: '{}' };
    const [expired, paid] = [unpaidQuote(pubkey, words), unpaidQuote(pubkey, words)];
    await store.quotes.insert([expired]);
    await store.quotes.insert([paid]);
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
        watch_until: CREATED_AT_MS,
      },
    ]);
  });

  async function idOf(quoteId: string): Promise<number> {
    const [held] = await store.watch.findHeld(NOWHERE_MINT, [quoteId]);
    if (held === undefined) {
      throw new Error('there is no such quote');
    }
    return held.id;
  }
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
    takesDescription: true,
    takesDescriptionHash: true,
  };

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

describe('the history of a quote', () => {
  const state = { kind: 'state', from: 'UNPAID', to: 'PAID', source: 'poll' } as const;

  it('is kept in order, with the first of each kind', async () => {
    const id = await aQuote();
    const other = await aQuote();
    await store.events.add([
      { id, atMs: CREATED_AT_MS + 7, ...state },
      { id: other, atMs: CREATED_AT_MS + 8, kind: 'told', sockets: 9 },
    ]);
    for (let index = 1; index <= 30; index += 1) {
      const atMs = CREATED_AT_MS + 8 + index;
      await store.events.add([{ id, atMs, kind: 'told', sockets: index }]);
    }
    const events = await store.events.list(id);
    expect(events[0]).toEqual({ atMs: CREATED_AT_MS + 7, ...state });
    expect(events.slice(1)).toEqual(
      Array.from({ length: 20 }, (_, index) => ({
        atMs: CREATED_AT_MS + 9 + index,
        kind: 'told',
        sockets: 1 + index,
      })),
    );
    expect(await store.events.list(other)).toHaveLength(1);
  });

  async function aQuote(): Promise<number> {
    return (await store.quotes.insert([unpaidQuote(pubkey)]))[0] ?? 0;
  }
});

describe('the lease of a mint', () => {
  const MINTS = ['https://a.example', 'https://b.example'];

  it('cannot be claimed by a process that is not known to be alive', async () => {
    expect(await store.leases.claim('stranger', MINTS)).toEqual([]);
  });

  it('is free when a dead process has a lease in the future because the clock went back', async () => {
    await store.leases.keepAlive('dead');
    await store.leases.claim('dead', MINTS);
    await setAliveUntil('dead', 3_600_000);
    await store.leases.keepAlive('one');
    expect(await store.leases.claim('one', MINTS)).toEqual(MINTS);
    expect(await store.leases.countProcesses()).toBe(1);
  });

  async function setAliveUntil(processId: string, fromNowMs: number): Promise<void> {
    await database.db
      .updateTable('watch_processes')
      .set({ alive_until: Date.now() + fromNowMs })
      .where('id', '=', processId)
      .execute();
  }
});

describe('the outbox of zap receipts', () => {
  const ONE = 'wss://one.example';
  const TWO = 'wss://two.example';
  const MADE_AT = 1_750_000_000_000;

  const plant = (count: number, relays: readonly string[], atMs = MADE_AT) =>
    plantReceipts(database, { texts: count, relays, atMs });

  const claim = (url: string, nowMs = MADE_AT, limit = 100, on = store) =>
    on.deliveries.claim(url, { nowMs, untilMs: nowMs + 30 * SECOND_MS, limit });

  const rest = (url: string, restUntilMs: number) =>
    record(url, { standing: { failures: 1, restUntilMs, word: 'timed out' } });

  const record = (url: string, batch: Partial<Parameters<Store['deliveries']['record']>[1]>) =>
    store.deliveries.record(
      url,
      { steps: [], standing: null, hasAccepted: false, ...batch },
      MADE_AT,
    );

  it('a claim takes the newest due receipts, as they were signed', async () => {
    await plant(1, [ONE]);
    const [newest] = await plant(1, [ONE], MADE_AT + SECOND_MS);
    await plant(1, [ONE], MADE_AT + 2 * SECOND_MS);
    await plant(1, [TWO]);
    expect(await claim(ONE, MADE_AT + SECOND_MS, 1)).toEqual([
      { ...newest, tries: 0, paymentHash: null },
    ]);
  });

  it('results of a delivery that has ended change nothing', async () => {
    const [receipt] = await plant(1, [ONE]);
    const id = receipt?.id ?? '';
    const accepted = { id, state: 'accepted', tries: 1, nextTryAtMs: null, word: '' } as const;
    await record(ONE, { steps: [accepted] });
    const late = { id, state: 'open', tries: 2, nextTryAtMs: MADE_AT, word: '' } as const;
    await record(ONE, { steps: [late] });
    expect((await standingAt(database, ONE)).get(id)).toMatchObject({
      state: 'accepted',
      tries: 1,
    });
  });

  it('open deliveries are given up after two days; those never sent keep the trouble of the relay', async () => {
    await plant(3, [ONE, TWO]);
    await plant(1, [ONE], MADE_AT + DAY_MS);
    await rest(ONE, MADE_AT);
    const end = MADE_AT + 2 * DAY_MS;
    await store.deliveries.giveUpOverdue(end - 1, 100);
    expect(await countsAt(database, ONE)).toEqual({ open: 4 });
    expect(await store.deliveries.giveUpOverdue(end, 4)).toBe(true);
    expect(await store.deliveries.giveUpOverdue(end, 4)).toBe(false);
    expect(await countsAt(database, ONE)).toEqual({ given_up: 3, open: 1 });
    expect(await countsAt(database, TWO)).toEqual({ given_up: 3 });
    const deliveries = [...(await standingAt(database, ONE)).values()];
    expect(deliveries.filter(({ last_word }) => last_word === 'timed out')).toHaveLength(3);
  });
});
