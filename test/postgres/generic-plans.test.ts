import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import {
  type HeldQuote,
  type QuoteChange,
  QuoteWatchStore,
} from '../../src/store/quote-watch-store.ts';
import { Store } from '../../src/store/store.ts';
import { costOfKeptPlan } from '../helpers/query-cost.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** A generic plan is made for no mint in particular, so it has to suit the largest of many. */

const BIG_MINT = 'https://big.example';
const QUOTES_OF_BIG = 20_000;
const SMALL_MINTS = 2_000;
const ALL_QUOTES = QUOTES_OF_BIG + 2 * SMALL_MINTS;
const RECIPIENTS = 5_000;

/** A few of its ids. */
const QUOTE_IDS = Array.from({ length: 20 }, (_, index) => `id-${index + 1}`);

let database: Database;

useDatabase((opened) => {
  database = opened;
});

beforeAll(async () => {
  const { db } = database;
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                        created_at, expires_at, watch_until)
    select case when n <= ${QUOTES_OF_BIG}::int then ${BIG_MINT}
                else 'https://m' || n % ${SMALL_MINTS}::int || '.example' end,
           'id-' || n, md5(n::text), 'lnbc1', 21, 'UNPAID', false, now(), now(), now()
    from generate_series(1, ${ALL_QUOTES}::int) as n`.execute(db);
  await sql`
    insert into users (pubkey)
    select md5(n::text) from generate_series(1, ${RECIPIENTS}::int) as n`.execute(db);
  await sql`analyze quotes, users`.execute(db);
});

describe('of a mint with most of the quotes', () => {
  it.each<[string, (watch: QuoteWatchStore) => Promise<unknown>]>([
    ['found', (watch) => watch.findHeld(BIG_MINT, QUOTE_IDS)],
    ['locked', (watch) => watch.lockHeld(BIG_MINT, QUOTE_IDS)],
    ['listed', (watch) => watch.listWatched(BIG_MINT, QUOTES_OF_BIG - 20, 1_000)],
  ])('a few quotes are %s without reading the others', async (_what, call) => {
    const cost = await costOfKeptPlan(database.db, (db) => call(new QuoteWatchStore(db)));
    expect(cost.rows).toBeGreaterThanOrEqual(QUOTE_IDS.length);
    expect(cost.rows).toBeLessThanOrEqual(3 * QUOTE_IDS.length);
    expect(cost.pages).toBeLessThan(40 * QUOTE_IDS.length);
  });
});

it('a hundred quotes are changed with one lookup each', async () => {
  const quoteIds = Array.from({ length: 100 }, (_, index) => `id-${index + 1}`);
  const held = await new QuoteWatchStore(database.db).findHeld(BIG_MINT, quoteIds);
  expect(held).toHaveLength(100);
  const cost = await costOfKeptPlan(database.db, (db) =>
    new QuoteWatchStore(db).applyChanges(held.map(({ id }) => paid(id))),
  );
  expect(cost.rows).toBeGreaterThanOrEqual(held.length);
  expect(cost.rows).toBeLessThanOrEqual(5 * held.length);
});

describe.each([
  ['many', ALL_QUOTES],
  // Reading them all takes ten times as long as a lookup, and a plan for a hundred does that.
  ['some thousand', 3_000],
])('of one payment among %s', (_amount, quotes) => {
  beforeAll(async () => {
    await sql`delete from quotes where id > ${quotes}`.execute(database.db);
    await sql`vacuum analyze quotes`.execute(database.db);
  });

  it.each<[string, (store: Store, quote: HeldQuote) => Promise<unknown>]>([
    [
      'the counter of its recipient is locked',
      ({ users }, { pubkey }) => users.lockPaymentCounters([pubkey]),
    ],
    ['the quote is locked', ({ watch }, { quoteId }) => watch.lockHeld(BIG_MINT, [quoteId])],
    ['the quote is changed', ({ watch }, { id }) => watch.applyChanges([paid(id)])],
    [
      'the counter is saved',
      ({ users }, { pubkey }) =>
        users.savePaymentCounters([{ pubkey, paidCount: 1, lastPaidAtMs: 1 }]),
    ],
  ])('%s without reading the others', async (_what, call) => {
    const [quote] = await new QuoteWatchStore(database.db).findHeld(BIG_MINT, ['id-1']);
    const cost = await costOfKeptPlan(database.db, (db) => call(new Store(db), quote as HeldQuote));
    expect(cost.rows).toBeLessThanOrEqual(10);
    expect(cost.pages).toBeLessThan(200);
  });
});

function paid(id: number): QuoteChange {
  return { id, state: 'PAID', watchUntilMs: 2, payment: { paidAtMs: 1, paidSeq: 1 } };
}
