import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { QuoteEvent } from '../../src/domain/quote-event.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { HISTORY_DAYS, PruneHistory } from '../../src/usecases/prune-history.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';

/** What is forgotten where the clocks of process and database differ, on either database. */

const DAY_MS = 24 * 60 * 60_000;

let testDatabase: TestDatabase;
let database: Database;
let store: Store;
let id: number;
let old: QuoteEvent;
let young: QuoteEvent;

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
  const quote = unpaidQuote(randomBytes(32).toString('hex'));
  await store.quotes.insert(quote);
  id = (await store.watch.findHeld(NOWHERE_MINT, [quote.quoteId]))[0]?.id ?? 0;
  const oldestKeptMs = Date.now() - HISTORY_DAYS * DAY_MS;
  old = { atMs: oldestKeptMs - DAY_MS, kind: 'told', sockets: 1 };
  young = { atMs: oldestKeptMs + DAY_MS, kind: 'told', sockets: 1 };
  await store.events.add([old, young].map((event) => ({ id, pubkey: quote.pubkey, ...event })));
});

it('a clock of the process that jumped ahead does not take the history with it', async () => {
  await pruneAt(Date.now() + 365 * DAY_MS);
  expect(await store.events.list(id)).toEqual([young]);
});

it('a clock of the process that stayed behind keeps more, and nothing is lost', async () => {
  await pruneAt(Date.now() - 365 * DAY_MS);
  expect(await store.events.list(id)).toEqual([old, young]);
});

function pruneAt(nowMs: number): Promise<void> {
  return new PruneHistory(store, () => nowMs).run(new AbortController().signal);
}
