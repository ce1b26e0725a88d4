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

it('returns the row id of each insert, after the commit', async () => {
  const writer = new QuoteWriter(insert);
  const quotes = Array.from({ length: 250 }, () => buildUnpaidQuote(randomPubkey()));
  const ids = await Promise.all(quotes.map((quote) => writer.insert(quote)));
  const rows = await database.db.selectFrom('quotes').select(['id', 'quote_id']).execute();
  const rowIdByQuoteId = new Map(rows.map((row) => [row.quote_id, row.id]));
  expect(ids).toEqual(quotes.map(({ quoteId }) => rowIdByQuoteId.get(quoteId)));
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

it('writes all inserts that arrive during a commit in one batch after it', async () => {
  const batchSizes: number[] = [];
  const commits = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const firstCommitStarted = Promise.withResolvers<void>();
  const writer = new QuoteWriter(async (quotes) => {
    batchSizes.push(quotes.length);
    firstCommitStarted.resolve();
    await commits[batchSizes.length - 1]?.promise;
    return quotes.map((_, index) => index);
  });
  const inserts = [writer.insert(buildUnpaidQuote(randomPubkey()))];
  await firstCommitStarted.promise;
  for (let i = 0; i < 5; i += 1) {
    inserts.push(writer.insert(buildUnpaidQuote(randomPubkey())));
  }
  commits[0]?.resolve();
  commits[1]?.resolve();
  await Promise.all(inserts);
  expect(batchSizes).toEqual([1, 5]);
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

it('rejects the inserts of a failed batch, and stores later ones', async () => {
  let isDiskFull = true;
  const writer = new QuoteWriter(async (quotes) => {
    if (isDiskFull) {
      throw new Error('the disk is full');
    }
    return insert(quotes);
  });
  const failedInserts = [1, 2].map(() => writer.insert(buildUnpaidQuote(randomPubkey())));
  await expect(failedInserts[0]).rejects.toThrow('the disk is full');
  await expect(failedInserts[1]).rejects.toThrow('the disk is full');
  isDiskFull = false;
  expect(await writer.insert(buildUnpaidQuote(randomPubkey()))).toEqual(expect.any(Number));
});
