import { beforeEach, expect, it } from 'vitest';
import { QuoteWriter } from '../../src/quotes/quote-store.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';
import { buildUnpaidQuote, randomPubkey } from '../helpers/quotes.ts';

const database = useDatabase();
let store: Store;

beforeEach(async () => {
  store = new Store(database.db);
  await database.db.deleteFrom('quotes').execute();
});

it('resolves each insert with the id of its row, after the commit', async () => {
  const writer = new QuoteWriter(store.quotes);
  const quotes = Array.from({ length: 250 }, () => buildUnpaidQuote(randomPubkey()));
  const ids = await Promise.all(quotes.map((quote) => writer.insert(quote)));
  const rows = await database.db.selectFrom('quotes').select(['id', 'quote_id']).execute();
  const idOf = new Map(rows.map((row) => [row.quote_id, row.id]));
  expect(ids).toEqual(quotes.map(({ quoteId }) => idOf.get(quoteId)));
});

it('stores the first of two quotes with the same id, also within one batch', async () => {
  const writer = new QuoteWriter(store.quotes);
  const [first, second] = [randomPubkey(), randomPubkey()].map((pubkey) =>
    buildUnpaidQuote(pubkey, { quoteId: 'same' }),
  ) as [ReturnType<typeof buildUnpaidQuote>, ReturnType<typeof buildUnpaidQuote>];
  const [id, ...rejected] = await Promise.all([writer.insert(first), writer.insert(second)]);
  expect(id).toEqual(expect.any(Number));
  expect([...rejected, await writer.insert(second)]).toEqual([null, null]);
  const rows = await database.db.selectFrom('quotes').select(['id', 'pubkey']).execute();
  expect(rows).toEqual([{ id, pubkey: first.pubkey }]);
});

it('lets inserts that arrive during a commit share the next one', async () => {
  const batches: number[] = [];
  const commits = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const began = Promise.withResolvers<void>();
  const writer = new QuoteWriter({
    insert: async (quotes) => {
      batches.push(quotes.length);
      began.resolve();
      await commits[batches.length - 1]?.promise;
      return quotes.map((_, index) => index);
    },
  });
  const inserts = [writer.insert(buildUnpaidQuote(randomPubkey()))];
  await began.promise;
  for (let i = 0; i < 5; i += 1) {
    inserts.push(writer.insert(buildUnpaidQuote(randomPubkey())));
  }
  commits[0]?.resolve();
  commits[1]?.resolve();
  await Promise.all(inserts);
  expect(batches).toEqual([1, 5]);
});

it('rejects the inserts of a batch that fails, and stores later ones', async () => {
  let isBroken = true;
  const writer = new QuoteWriter({
    insert: async (quotes) => {
      if (isBroken) {
        throw new Error('the disk is full');
      }
      return store.quotes.insert(quotes);
    },
  });
  const failed = [1, 2].map(() => writer.insert(buildUnpaidQuote(randomPubkey())));
  await expect(failed[0]).rejects.toThrow('the disk is full');
  await expect(failed[1]).rejects.toThrow('the disk is full');
  isBroken = false;
  expect(await writer.insert(buildUnpaidQuote(randomPubkey()))).toEqual(expect.any(Number));
});
