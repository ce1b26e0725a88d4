import { sql } from 'kysely';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { QuoteEvent } from '../../src/quotes/quote-event-store.ts';
import { HISTORY_RETENTION_DAYS, pruneHistory } from '../../src/retention.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';
import { buildUnpaidQuote, randomPubkey } from '../helpers/quotes.ts';
import { insertReceipts } from '../helpers/zap-receipt-outbox.ts';

/** Old history and receipts are pruned. */

const DAY_MS = 24 * 60 * 60_000;

const database = useDatabase();
let store: Store;
let id: number;
let old: QuoteEvent;
let young: QuoteEvent;

beforeAll(() => {
  store = new Store(database.db);
});

beforeEach(async () => {
  const quote = buildUnpaidQuote(randomPubkey());
  id = (await store.quotes.insert([quote]))[0] ?? 0;
  const oldestKeptMs = Date.now() - HISTORY_RETENTION_DAYS * DAY_MS;
  old = { atMs: oldestKeptMs - DAY_MS, kind: 'update_sent', socketCount: 1 };
  young = { atMs: oldestKeptMs + DAY_MS, kind: 'update_sent', socketCount: 1 };
  await store.quoteEvents.add([old, young].map((event) => ({ quoteRowId: id, ...event })));
});

it('prunes history in small batches', async () => {
  await addMany(1_234, old.atMs);
  const pruneEvents = vi.spyOn(store.quoteEvents, 'prune');
  onTestFinished(() => pruneEvents.mockRestore());
  await prune();
  expect(pruneEvents.mock.calls).toEqual([[500], [500], [500]]);
  expect(await store.quoteEvents.listByQuote(id)).toEqual([young]);
});

describe('zap receipts', () => {
  const LONG_AGO_MS = Date.now() - (HISTORY_RETENTION_DAYS + 1) * DAY_MS;
  const RECENTLY_MS = LONG_AGO_MS + 2 * DAY_MS;

  beforeEach(async () => {
    await database.db.deleteFrom('zap_receipts').execute();
    await database.db.deleteFrom('relays').execute();
  });

  it('are given up after two days, and deleted with their deliveries after thirty', async () => {
    const relays = ['wss://relay.example'];
    await insertReceipts(database, { events: 1_234, relays, createdAtMs: LONG_AGO_MS });
    const [young] = await insertReceipts(database, { events: 1, relays, createdAtMs: RECENTLY_MS });
    await prune();
    const { db } = database;
    expect(await db.selectFrom('zap_receipts').select('id').execute()).toEqual([{ id: young?.id }]);
    expect(
      await db.selectFrom('zap_receipt_deliveries').select(['receipt', 'state']).execute(),
    ).toEqual([{ receipt: young?.id, state: 'given_up' }]);
    const { count } = db.fn;
    const quotes = await db.selectFrom('quotes').select(count('id').as('left')).execute();
    expect(Number(quotes[0]?.left)).toBeGreaterThanOrEqual(1_235);
  });

  it('leave relays behind, which are deleted after the same time', async () => {
    for (const [url, atMs] of [
      ['wss://old.example', LONG_AGO_MS],
      ['wss://young.example', RECENTLY_MS],
    ] as const) {
      await database.db.insertInto('relays').values({ url, last_attempt_at: atMs }).execute();
    }
    await prune();
    const relays = await database.db.selectFrom('relays').select('url').execute();
    expect(relays).toEqual([{ url: 'wss://young.example' }]);
  });
});

function prune(): Promise<void> {
  return pruneHistory(store, Date.now(), new AbortController().signal);
}

/** Adds events directly, because the store limits the events of one quote. */
async function addMany(count: number, atMs: number): Promise<void> {
  await sql`
    with recursive series (n) as (select 1 union all select n + 1 from series where n < ${count})
    insert into quote_events (quote, at, kind, detail)
    select cast(${id} as bigint), cast(${atMs} as bigint), 'update_sent', '{"socketCount": 1}' from series
  `.execute(database.db);
}
