import { beforeEach, expect, it, vi } from 'vitest';
import { DatabaseUnavailableError } from '../../src/errors.ts';
import { insertQuotes, type NewQuote } from '../../src/quotes/quote-store.ts';
import { QuoteWriter } from '../../src/quotes/quote-writer.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { buildUnpaidQuote, randomPubkey } from '../helpers/recipients/quote-fixtures.ts';

const database = useTestDatabase();
const insert = (quotes: readonly NewQuote[]) => insertQuotes(database.db, quotes);

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
});

it('stores only the first of two quotes with the same id, also within one batch', async () => {
  const writer = new QuoteWriter(insert);
  const [first, second] = [randomPubkey(), randomPubkey()].map((pubkey) =>
    buildUnpaidQuote(pubkey, { quoteId: 'same' }),
  ) as [ReturnType<typeof buildUnpaidQuote>, ReturnType<typeof buildUnpaidQuote>];
  const [rowId, ...duplicateResults] = await Promise.all([
    writer.insert(first),
    writer.insert(second),
  ]);
  expect(rowId).toEqual(expect.any(Number));
  expect([...duplicateResults, await writer.insert(second)]).toEqual([null, null]);
  const rows = await database.db.selectFrom('quotes').select(['id', 'pubkey']).execute();
  expect(rows).toEqual([{ id: rowId, pubkey: first.pubkey }]);
});

it('rejects only the quote that the database rejects, and stores the others of its batch', async () => {
  const writer = new QuoteWriter(insert);
  // A comment with NUL would do, but SQLite accepts it.
  const rejected = buildUnpaidQuote(randomPubkey(), { amountSat: null as unknown as number });
  const others = [1, 2, 3].map(() => buildUnpaidQuote(randomPubkey()));
  const results = await Promise.allSettled(
    [others[0], rejected, others[1], others[2]].map((quote) => writer.insert(quote as NewQuote)),
  );
  expect(results.map(({ status }) => status)).toEqual([
    'fulfilled',
    'rejected',
    'fulfilled',
    'fulfilled',
  ]);
  const rows = await database.db.selectFrom('quotes').select('quote_id').orderBy('id').execute();
  expect(rows.map((row) => row.quote_id)).toEqual(others.map(({ quoteId }) => quoteId));
});

it('does not repeat a batch while the database is unavailable', async () => {
  const insert = vi.fn().mockRejectedValue(new DatabaseUnavailableError(new Error('disk full')));
  const writer = new QuoteWriter(insert);
  const inserts = [1, 2].map(() => writer.insert(buildUnpaidQuote(randomPubkey())));
  const results = await Promise.allSettled(inserts);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(insert).toHaveBeenCalledTimes(1);
});
