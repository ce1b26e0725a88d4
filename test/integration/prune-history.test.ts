import { sql } from 'kysely';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { QuoteEvent, QuoteEventStore } from '../../src/quotes/quote-event-store.ts';
import { HISTORY_DAYS, pruneHistory } from '../../src/retention.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';
import { newPubkey, unpaidQuote } from '../helpers/quotes.ts';
import { plantReceipts } from '../helpers/zap-outbox.ts';

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
  const quote = unpaidQuote(newPubkey());
  id = (await store.quotes.insert([quote]))[0] ?? 0;
  const oldestKeptMs = Date.now() - HISTORY_DAYS * DAY_MS;
  old = { atMs: oldestKeptMs - DAY_MS, kind: 'told', sockets: 1 };
  young = { atMs: oldestKeptMs + DAY_MS, kind: 'told', sockets: 1 };
  await store.events.add([old, young].map((event) => ({ id, ...event })));
});

it('history is pruned in small batches', async () => {
  await addMany(1_234, old.atMs);
  const limits: number[] = [];
  const events: Pick<QuoteEventStore, 'prune'> = {
    prune: (limit) => {
      limits.push(limit);
      return store.events.prune(limit);
    },
  };
  await prune({ ...store, events });
  expect(limits).toEqual([500, 500, 500]);
  expect(await store.events.list(id)).toEqual([young]);
});

describe('zap receipts', () => {
  const LONG_AGO_MS = Date.now() - (HISTORY_DAYS + 1) * DAY_MS;
  const RECENTLY_MS = LONG_AGO_MS + 2 * DAY_MS;

  beforeEach(async () => {
    await database.db.deleteFrom('zap_receipts').execute();
    await database.db.deleteFrom('relays').execute();
  });

  it('are given up after two days, and deleted with their deliveries after thirty', async () => {
    const relays = ['wss://relay.example'];
    await plantReceipts(database, { texts: 1_234, relays, atMs: LONG_AGO_MS });
    const [young] = await plantReceipts(database, { texts: 1, relays, atMs: RECENTLY_MS });
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

  it('leave relays behind, which are deleted as late', async () => {
    for (const [url, atMs] of [
      ['wss://old.example', LONG_AGO_MS],
      ['wss://young.example', RECENTLY_MS],
    ] as const) {
      await database.db.insertInto('relays').values({ url, last_try_at: atMs }).execute();
    }
    await prune();
    const relays = await database.db.selectFrom('relays').select('url').execute();
    expect(relays).toEqual([{ url: 'wss://young.example' }]);
  });
});

function prune(stores: Parameters<typeof pruneHistory>[0] = store): Promise<void> {
  return pruneHistory(stores, Date.now(), new AbortController().signal);
}

/** Adds more events than a quote may have, as if they were of many quotes. */
async function addMany(count: number, atMs: number): Promise<void> {
  await sql`
    with recursive series (n) as (select 1 union all select n + 1 from series where n < ${count})
    insert into quote_events (quote, at, kind, detail)
    select cast(${id} as bigint), cast(${atMs} as bigint), 'told', '{"sockets": 1}' from series
  `.execute(database.db);
}
