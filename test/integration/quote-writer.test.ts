import { beforeEach, expect, it, vi } from 'vitest';
import { DatabaseUnavailableError } from '../../src/errors.ts';
import { BatchWriter } from '../../src/quotes/batch-writer.ts';
import { createQuoteWriter, type NewQuote } from '../../src/quotes/quote-store.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { buildUnpaidQuote, randomPubkey } from '../helpers/recipients/quote-fixtures.ts';

const database = useTestDatabase();

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
});

it('stores only the first of two quotes with the same id, also within one batch', async () => {
  const store = createQuoteWriter(database.db);
  const quotes = [1, 2].map(() => buildUnpaidQuote(randomPubkey(), { quoteId: 'same' }));
  const [rowId, duplicate] = await Promise.all(quotes.map(store));
  expect(rowId).toEqual(expect.any(Number));
  expect([duplicate, ...(await Promise.all(quotes.map(store)))]).toEqual([null, null, null]);
  const rows = await database.db.selectFrom('quotes').select(['id', 'pubkey']).execute();
  expect(rows).toEqual([{ id: rowId, pubkey: quotes[0]?.pubkey }]);
});

it('rejects only the quote that the database rejects, and stores the others of its batch', async () => {
  // A comment with NUL would do, but SQLite accepts it.
  const rejected = buildUnpaidQuote(randomPubkey(), { amountSat: null as unknown as number });
  const others = [1, 2, 3].map(() => buildUnpaidQuote(randomPubkey()));
  const store = createQuoteWriter(database.db);
  const results = await Promise.allSettled(others.toSpliced(1, 0, rejected).map(store));
  const isStored = results.map(({ status }) => status === 'fulfilled');
  expect(isStored).toEqual([true, false, true, true]);
  const rows = await database.db.selectFrom('quotes').select('quote_id').orderBy('id').execute();
  expect(rows.map((row) => row.quote_id)).toEqual(others.map(({ quoteId }) => quoteId));
});

it('does not repeat a batch while the database is unavailable', async () => {
  const write = vi.fn().mockRejectedValue(new DatabaseUnavailableError(new Error('disk full')));
  const failed = vi.fn();
  const onError = (_error: unknown, quotes: readonly NewQuote[]) => failed(quotes.length);
  const writer = new BatchWriter<NewQuote>({ write, onError, delayMs: 0 });
  writer.add(buildUnpaidQuote(randomPubkey()));
  writer.add(buildUnpaidQuote(randomPubkey()));
  await writer.stop();
  expect(write).toHaveBeenCalledTimes(1);
  expect(failed.mock.calls).toEqual([[2]]);
});
