import { beforeAll, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';
import { plantReceipts } from '../helpers/zap-outbox.ts';

/** What waits, as it is counted for the metrics. */

const MADE_AT_MS = 1_750_000_000_000;
const [OURS, ALSO_OURS, THEIRS] = ['https://a.example', 'https://b.example', 'https://c.example'];

let database: Database;
let store: Store;

useDatabase((opened) => {
  database = opened;
  store = new Store(database.db);
});

beforeAll(async () => {
  const urls = { us: [OURS, ALSO_OURS], them: [THEIRS] };
  for (const [processId, mintUrls] of Object.entries(urls)) {
    await store.leases.keepAlive(processId);
    await store.leases.claim(processId, mintUrls);
  }
  for (const mintUrl of [OURS, OURS, ALSO_OURS, THEIRS, 'https://nobodys.example']) {
    await store.quotes.insert(unpaidQuote('a'.repeat(64), { mintUrl }));
  }
  await plantReceipts(database, {
    texts: 3,
    relays: ['wss://one.example', 'wss://two.example'],
    atMs: MADE_AT_MS,
  });
});

it('a process counts the quotes of the mints that it watches', async () => {
  const counted = await store.backlog.watchedQuotes('us');
  expect(counted.toSorted((a, b) => a.mintUrl.localeCompare(b.mintUrl))).toEqual([
    { mintUrl: OURS, state: 'UNPAID', count: 2 },
    { mintUrl: ALSO_OURS, state: 'UNPAID', count: 1 },
  ]);
  expect(await store.backlog.watchedQuotes('nobody')).toEqual([]);
});

it('receipts are counted that relays are still to be sent, and since when the first is due', async () => {
  await store.deliveries.record(
    'wss://two.example',
    (await database.db.selectFrom('zap_receipts').select('id').limit(2).execute()).map(
      ({ id }) => ({ id, state: 'accepted', nextTryAtMs: null, word: 'it took it' }),
    ),
    MADE_AT_MS,
  );
  expect(await store.backlog.outbox()).toBe(4);
  const relays = ['wss://one.example', 'wss://two.example', 'wss://three.example'];
  expect(await store.backlog.outboxOf(relays)).toEqual([
    { relay: 'wss://one.example', deliveries: 3, nextTryAtMs: MADE_AT_MS },
    { relay: 'wss://two.example', deliveries: 1, nextTryAtMs: MADE_AT_MS },
    { relay: 'wss://three.example', deliveries: 0, nextTryAtMs: null },
  ]);
});

it('purchases are counted by their state, and the oldest open one is told', async () => {
  const purchase = (id: string, createdAtMs: number) => ({
    id,
    pubkey: 'b'.repeat(64),
    name: id,
    priceSat: 10,
    paidSat: 10,
    mintUrl: OURS,
    createdAtMs,
    token: 'sealed',
    plan: { keysetId: '00', amounts: [8, 2] },
    driver: 'a run',
  });
  const none = { open: 0, done: 0, undone: 0, oldestOpenAtMs: null };
  expect(await store.backlog.purchases()).toEqual(none);
  await store.purchases.open(purchase('later', MADE_AT_MS + 1_000));
  await store.purchases.open(purchase('first', MADE_AT_MS));
  expect(await store.backlog.purchases()).toEqual({ ...none, open: 2, oldestOpenAtMs: MADE_AT_MS });
});
