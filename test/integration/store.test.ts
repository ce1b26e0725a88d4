import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { MintInfo } from '../../src/mints/mint-info.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';
import {
  buildUnpaidQuote,
  DEFAULT_CREATED_AT_MS,
  randomPubkey,
  UNREACHABLE_MINT_URL,
} from '../helpers/quotes.ts';
import {
  countDeliveriesByState,
  insertReceipts,
  readDeliveriesTo,
} from '../helpers/zap-receipt-outbox.ts';

/** Behaviour that only the stores show; everything else is tested through the service. */

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
  pubkey = randomPubkey();
});

it('imports thousands of payments of the same second in one batch', async () => {
  const quotes = Array.from({ length: 5_000 }, (_, index) => ({
    ...buildUnpaidQuote(pubkey),
    payment: { paidAtMs: DEFAULT_CREATED_AT_MS + index, paidSeq: index + 1 },
    state: 'PAID' as const,
  }));
  expect(await store.npubcashImport.insertQuotes(quotes)).toHaveLength(5_000);
});

describe('recorded changes', () => {
  it('remove the payer’s texts of an expired quote, and the address group of any closed quote', async () => {
    const words = { addressGroupHash: 'group', comment: 'thanks', zapRequest: '{}' };
    const [expired, paid] = [buildUnpaidQuote(pubkey, words), buildUnpaidQuote(pubkey, words)];
    await store.quotes.insert([expired]);
    await store.quotes.insert([paid]);
    await store.watchedQuotes.applyChanges([
      { id: await idOf(expired.quoteId), state: 'EXPIRED', watchUntilMs: null, payment: null },
      {
        id: await idOf(paid.quoteId),
        state: 'PAID',
        watchUntilMs: DEFAULT_CREATED_AT_MS,
        payment: { paidAtMs: DEFAULT_CREATED_AT_MS, paidSeq: 1 },
      },
    ]);
    const rows = await database.db
      .selectFrom('quotes')
      .select(['state', 'address_group_hash', 'comment', 'zap_request', 'watch_until'])
      .orderBy('state')
      .execute();
    expect(rows).toEqual([
      {
        ...{ state: 'EXPIRED', address_group_hash: null, comment: null, zap_request: null },
        watch_until: null,
      },
      {
        ...{ state: 'PAID', address_group_hash: null, comment: 'thanks', zap_request: '{}' },
        watch_until: DEFAULT_CREATED_AT_MS,
      },
    ]);
  });

  async function idOf(quoteId: string): Promise<number> {
    const [held] = await store.watchedQuotes.findByQuoteIds(UNREACHABLE_MINT_URL, [quoteId]);
    if (held === undefined) {
      throw new Error('there is no such quote');
    }
    return held.id;
  }
});

describe('a mint', () => {
  const INFO: MintInfo = {
    supportsBolt11Sat: true,
    minAmountSat: null,
    maxAmountSat: 5_000_000_000,
    supportsLocking: true,
    supportsSubscriptions: false,
    batchCheck: { maxBatchSize: 100 },
    supportsRestore: true,
    supportsDescription: true,
    supportsDescriptionHash: true,
  };

  it('keeps a rate limit per route, whichever process learned it', async () => {
    const mintUrl = `https://${randomPubkey().slice(0, 8)}.example`;
    const [create, check] = [
      { count: 20, isElastic: true },
      { count: 60, isElastic: false },
    ];
    await store.mints.saveInfo(mintUrl, INFO, DEFAULT_CREATED_AT_MS);
    await store.mints.saveRateLimit(mintUrl, 'create', create);
    await store.mints.saveRateLimit(mintUrl, 'check', check);
    expect(await store.mints.loadRateLimits(mintUrl)).toEqual({ create, check });
    await store.mints.saveRateLimit(mintUrl, 'create', null);
    expect(await store.mints.loadRateLimits(mintUrl)).toEqual({ check });
  });
});

describe('the history of a quote', () => {
  const state = { kind: 'state', from: 'UNPAID', to: 'PAID', source: 'poll' } as const;

  it('is stored in order, with the first events of each kind', async () => {
    const id = await aQuote();
    const other = await aQuote();
    await store.quoteEvents.add([
      { quoteRowId: id, atMs: DEFAULT_CREATED_AT_MS + 7, ...state },
      { quoteRowId: other, atMs: DEFAULT_CREATED_AT_MS + 8, kind: 'update_sent', socketCount: 9 },
    ]);
    for (let index = 1; index <= 30; index += 1) {
      const atMs = DEFAULT_CREATED_AT_MS + 8 + index;
      await store.quoteEvents.add([
        { quoteRowId: id, atMs, kind: 'update_sent', socketCount: index },
      ]);
    }
    const events = await store.quoteEvents.listByQuote(id);
    expect(events[0]).toEqual({ atMs: DEFAULT_CREATED_AT_MS + 7, ...state });
    expect(events.slice(1)).toEqual(
      Array.from({ length: 20 }, (_, index) => ({
        atMs: DEFAULT_CREATED_AT_MS + 9 + index,
        kind: 'update_sent',
        socketCount: 1 + index,
      })),
    );
    expect(await store.quoteEvents.listByQuote(other)).toHaveLength(1);
  });

  async function aQuote(): Promise<number> {
    return (await store.quotes.insert([buildUnpaidQuote(pubkey)]))[0] ?? 0;
  }
});

describe('the lease of a mint', () => {
  const MINTS = ['https://a.example', 'https://b.example'];

  it('cannot be claimed by a process without a live lease', async () => {
    expect(await store.leases.claimMints('stranger', MINTS)).toEqual([]);
  });

  it('is free if a dead process has a lease in the future because the clock was set back', async () => {
    await store.leases.renewLease('dead');
    await store.leases.claimMints('dead', MINTS);
    await setAliveUntil('dead', 3_600_000);
    await store.leases.renewLease('one');
    expect(await store.leases.claimMints('one', MINTS)).toEqual(MINTS);
    expect(await store.leases.countProcesses()).toBe(1);
  });

  async function setAliveUntil(processId: string, fromNowMs: number): Promise<void> {
    await database.db
      .updateTable('watch_processes')
      .set({ lease_expires_at: Date.now() + fromNowMs })
      .where('id', '=', processId)
      .execute();
  }
});

describe('the outbox of zap receipts', () => {
  const ONE = 'wss://one.example';
  const TWO = 'wss://two.example';
  const MADE_AT = 1_750_000_000_000;

  const plant = (count: number, relays: readonly string[], atMs = MADE_AT) =>
    insertReceipts(database, { events: count, relays, createdAtMs: atMs });

  const claim = (url: string, nowMs = MADE_AT, limit = 100, on = store) =>
    on.receiptDeliveries.claimDue(url, { nowMs, claimedUntilMs: nowMs + 30 * SECOND_MS, limit });

  const backOff = (url: string, backoffUntilMs: number) =>
    record(url, { relayStatus: { failures: 1, backoffUntilMs, lastError: 'timed out' } });

  const record = (
    url: string,
    batch: Partial<Parameters<Store['receiptDeliveries']['recordBatch']>[1]>,
  ) =>
    store.receiptDeliveries.recordBatch(
      url,
      { updates: [], relayStatus: null, hasAccepted: false, ...batch },
      MADE_AT,
    );

  it('claims the newest due receipts as they were signed', async () => {
    await plant(1, [ONE]);
    const [newest] = await plant(1, [ONE], MADE_AT + SECOND_MS);
    await plant(1, [ONE], MADE_AT + 2 * SECOND_MS);
    await plant(1, [TWO]);
    expect(await claim(ONE, MADE_AT + SECOND_MS, 1)).toEqual([
      { ...newest, attempts: 0, paymentHash: null },
    ]);
  });

  it('ignores results of a delivery that has ended', async () => {
    const [receipt] = await plant(1, [ONE]);
    const id = receipt?.id ?? '';
    const accepted = {
      id,
      state: 'accepted',
      attempts: 1,
      nextAttemptAtMs: null,
      lastResult: '',
    } as const;
    await record(ONE, { updates: [accepted] });
    const late = {
      id,
      state: 'open',
      attempts: 2,
      nextAttemptAtMs: MADE_AT,
      lastResult: '',
    } as const;
    await record(ONE, { updates: [late] });
    expect((await readDeliveriesTo(database, ONE)).get(id)).toMatchObject({
      state: 'accepted',
      attempts: 1,
    });
  });

  it('gives up open deliveries after two days; those never sent keep the relay’s error', async () => {
    await plant(3, [ONE, TWO]);
    await plant(1, [ONE], MADE_AT + DAY_MS);
    await backOff(ONE, MADE_AT);
    const end = MADE_AT + 2 * DAY_MS;
    await store.receiptDeliveries.giveUpOverdue(end - 1, 100);
    expect(await countDeliveriesByState(database, ONE)).toEqual({ open: 4 });
    expect(await store.receiptDeliveries.giveUpOverdue(end, 4)).toBe(true);
    expect(await store.receiptDeliveries.giveUpOverdue(end, 4)).toBe(false);
    expect(await countDeliveriesByState(database, ONE)).toEqual({ given_up: 3, open: 1 });
    expect(await countDeliveriesByState(database, TWO)).toEqual({ given_up: 3 });
    const deliveries = [...(await readDeliveriesTo(database, ONE)).values()];
    expect(deliveries.filter(({ last_result }) => last_result === 'timed out')).toHaveLength(3);
  });
});
