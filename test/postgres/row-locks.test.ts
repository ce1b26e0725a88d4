import pg from 'pg';
import { beforeEach, expect, it } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import type { ObservedState } from '../../src/mints/quote-responses.ts';
import type { SourcedObservation } from '../../src/quotes/observation-recorder.ts';
import type { NewQuote } from '../../src/quotes/quote-store.ts';
import { Store } from '../../src/store.ts';
import { openTestDatabase, postgresUrl, type TestDatabase } from '../helpers/database.ts';
import { waitForBlockedStatement } from '../helpers/postgres-backends.ts';
import { buildUnpaidQuote, createObservationRecorder } from '../helpers/quotes.ts';

/** Payments while an open transaction locks some of their rows. */

const HELD = '1'.repeat(64);
const OTHER = '2'.repeat(64);

let testDatabase: TestDatabase;
let database: Database;
let store: Store;

beforeEach(async () => {
  ({ testDatabase, database } = await openTestDatabase());
  store = new Store(database.db);
});

it('records payments of all other recipients immediately, and the locked one when the lock is released', async () => {
  const recorder = createObservationRecorder(store);
  const record = async (recipient: string, mint: number) => {
    const quote = buildUnpaidQuote(recipient, { mintUrl: `https://mint-${mint}.example` });
    await store.quotes.insert([quote]);
    await recorder.record(quote.mintUrl, [observe(quote, 'PAID')]);
    return quote;
  };
  await record(HELD, 0);
  const release = await lock('update users set lock_quotes = lock_quotes where pubkey = $1', HELD);

  const late = Promise.all([1, 2, 3].map((mint) => record(HELD, mint)));
  const others = await Promise.all([1, 2, 3, 4, 5].map((mint) => record(OTHER, mint)));
  expect(await statesOf(others)).toEqual(others.map(() => 'PAID'));
  expect(await paidPlaces(HELD)).toEqual([1]);

  await release();
  await late;
  expect(await paidPlaces(HELD)).toEqual([1, 2, 3, 4]);
  expect(await paidPlaces(OTHER)).toEqual([1, 2, 3, 4, 5]);
});

it('stores the quotes of a batch in a fixed order, so that two processes cannot deadlock', async () => {
  const [first, second] = ['a', 'b'].map((quoteId) => buildUnpaidQuote(OTHER, { quoteId })) as [
    NewQuote,
    NewQuote,
  ];
  const locked = Promise.withResolvers<void>();
  const batchWaits = Promise.withResolvers<void>();
  const earlier = store.transaction(async (tx) => {
    await tx.quotes.insert([first]);
    locked.resolve();
    await batchWaits.promise;
    return await tx.quotes.insert([second]);
  });
  await locked.promise;
  const batch = store.quotes.insert([second, first]);
  await waitForBlockedStatement(database);
  batchWaits.resolve();
  expect(await earlier).toEqual([expect.any(Number)]);
  expect(await batch).toEqual([null, null]);
});

/** Changes a row in an open transaction. @returns a function that ends the transaction */
async function lock(change: string, key: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: postgresUrl(testDatabase) });
  client.on('error', () => undefined);
  await client.connect();
  await client.query('begin');
  await client.query(change, [key]);
  return async () => {
    await client.query('commit');
    await client.end();
  };
}

function observe({ quoteId }: NewQuote, state: ObservedState): SourcedObservation {
  return { quoteId, state, source: 'poll' };
}

async function statesOf(quotes: readonly NewQuote[]): Promise<(string | undefined)[]> {
  return await Promise.all(
    quotes.map(
      async ({ verifyToken }) => (await store.quotes.findByVerifyToken(verifyToken))?.state,
    ),
  );
}

async function paidPlaces(pubkey: string): Promise<(number | null)[]> {
  const rows = await database.db
    .selectFrom('quotes')
    .select('paid_seq')
    .where('pubkey', '=', pubkey)
    .where('paid_seq', 'is not', null)
    .orderBy('paid_seq')
    .execute();
  return rows.map(({ paid_seq }) => paid_seq);
}
