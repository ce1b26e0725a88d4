import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { Overtaken } from '../../src/store/overtaken.ts';
import type { NewQuote } from '../../src/store/quote-store.ts';
import { Store } from '../../src/store/store.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { recorderOn } from '../helpers/recorder.ts';
import { NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { waitingBackends } from '../helpers/waiting-backends.ts';

/** Payments while somebody else holds what some of them need, as an operator does whose `begin` has no end yet. */

const HELD = '1'.repeat(64);
const OTHER = '2'.repeat(64);

let testDatabase: TestDatabase;
let database: Database;
let store: Store;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  database = await testDatabase.open();
  store = new Store(database.db);
});

afterEach(async () => {
  await database.close();
  await testDatabase.drop();
});

it.each(['socket', 'poll'] as const)(
  'that a %s tells of are recorded of everybody else, of whatever mint, and of the one as soon as it is let go',
  async (source) => {
    const recordObservations = recorderOn(store);
    const record = async (recipient: string, mint: number) => {
      const quote = unpaidQuote(recipient, { mintUrl: `https://mint-${mint}.example` });
      await store.quotes.insert(quote);
      const said = [{ quoteId: quote.quoteId, state: 'PAID' as const }];
      await recordObservations.record(quote.mintUrl, said, source, () => true);
      return quote;
    };
    await record(HELD, 0);
    const letGo = await hold('update users set lock_quotes = lock_quotes where pubkey = $1', HELD);

    // At a time: those of the one first, and all others behind.
    const late = Promise.all([1, 2, 3].map((mint) => record(HELD, mint)));
    late.catch(() => undefined);
    const others = await Promise.all([1, 2, 3, 4, 5].map((mint) => record(OTHER, mint)));
    expect(await statesOf(others)).toEqual(others.map(() => 'PAID'));
    expect(await paidPlaces(HELD)).toEqual([1]);

    await letGo();
    await late;
    expect(await paidPlaces(HELD)).toEqual([1, 2, 3, 4]);
    expect(await paidPlaces(OTHER)).toEqual([1, 2, 3, 4, 5]);
  },
);

it('and are changed by whoever holds them are decided about again, by what they are then', async () => {
  const recordObservations = recorderOn(store);
  const quote = unpaidQuote(OTHER);
  await store.quotes.insert(quote);
  const record = (state: 'PAID' | 'INFLIGHT') =>
    recordObservations.record(
      quote.mintUrl,
      [{ quoteId: quote.quoteId, state }],
      'socket',
      () => true,
    );
  await record('PAID');
  const letGo = await hold("update quotes set state = 'ISSUED' where quote_id = $1", quote.quoteId);
  const late = record('INFLIGHT');
  await eventually(async () => expect(await waitingBackends(database)).toBe(1));
  await letGo();
  expect(await late).toEqual({ news: [], finished: [] });
  expect(await statesOf([quote])).toEqual(['ISSUED']);
});

it('to recipients who are new, in one moment at two processes, in whatever order they are named, are all recorded', async () => {
  const [known, first, second] = ['3', '4', '5'].map((digit) => digit.repeat(64)) as [
    string,
    string,
    string,
  ];
  await store.users.makePaymentCounters([known]);
  const made = Promise.withResolvers<void>();
  const letGo = Promise.withResolvers<void>();
  const earlier = store.transaction(async (tx) => {
    await tx.users.lockPaymentCounters([second, first]);
    made.resolve();
    await letGo.promise;
  });
  await made.promise;
  const lock = () =>
    store.transaction((tx) => tx.users.lockPaymentCounters([first, known, second]));
  const overtaken = lock();
  overtaken.catch(() => undefined);
  const quotes = [second, known, first].map((recipient) => unpaidQuote(recipient));
  for (const quote of quotes) {
    await store.quotes.insert(quote);
  }
  const recorded = recorderOn(store).record(
    NOWHERE_MINT,
    quotes.map(({ quoteId }) => ({ quoteId, state: 'PAID' as const })),
    'socket',
    () => true,
  );
  await eventually(async () => expect(await waitingBackends(database)).toBe(2));
  letGo.resolve();
  await earlier;

  // What waited for the first of them has no place in the order for the others.
  await expect(overtaken).rejects.toThrow(Overtaken);
  expect(await lock()).toHaveLength(3);
  await recorded;
  expect(await statesOf(quotes)).toEqual(['PAID', 'PAID', 'PAID']);
});

/** @returns lets go of what is changed */
async function hold(change: string, key: string): Promise<() => Promise<void>> {
  if (testDatabase.location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  const client = new pg.Client({ connectionString: testDatabase.location.url });
  client.on('error', () => undefined);
  await client.connect();
  await client.query('begin');
  await client.query(change, [key]);
  return async () => {
    await client.query('commit');
    await client.end();
  };
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
