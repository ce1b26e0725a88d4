import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { type HeldQuote, QuoteWatchStore } from '../../src/store/quote-watch-store.ts';
import { Store } from '../../src/store/store.ts';
import { costOfKeptPlan } from '../helpers/query-cost.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** A plan that is kept is made for no mint in particular: it has to be right for the largest of many. */

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
                        created_at, expires_at, next_check_at)
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
  it.each([
    ['found', (watch: QuoteWatchStore) => watch.findHeld(BIG_MINT, QUOTE_IDS)],
    ['put off', (watch: QuoteWatchStore) => watch.postpone(BIG_MINT, QUOTE_IDS, 4e12)],
  ])('a few quotes are %s without reading the others', async (_what, call) => {
    const cost = await costOfKeptPlan(database.db, (db) => call(new QuoteWatchStore(db)));
    expect(cost.rows).toBeLessThanOrEqual(3 * QUOTE_IDS.length);
    // A change of a row goes to each of its indexes.
    expect(cost.pages).toBeLessThan(40 * QUOTE_IDS.length);
  });
});

it.each([
  [
    'payments are recorded',
    (watch: QuoteWatchStore, held: readonly HeldQuote[]) =>
      watch.recordChanges(
        held.map(({ id, checkedAtMs }) => ({ ...paid(id), from: 'UNPAID', checkedAtMs })),
        'poll',
        1,
      ),
  ],
  [
    'quotes are changed',
    (watch: QuoteWatchStore, held: readonly HeldQuote[]) =>
      watch.applyChanges(
        held.map(({ id }) => paid(id)),
        1,
      ),
  ],
  [
    'next checks are planned',
    (watch: QuoteWatchStore, held: readonly HeldQuote[]) =>
      watch.reschedule(
        held.map(({ id }) => ({ id, state: 'UNPAID', nextCheck: null })),
        1,
      ),
  ],
])('a thousand %s with a look at each, and not at each beside every other', async (_what, call) => {
  const quoteIds = Array.from({ length: 1_000 }, (_, index) => `id-${index + 1}`);
  const held = await new QuoteWatchStore(database.db).findHeld(BIG_MINT, quoteIds);
  expect(held).toHaveLength(1_000);
  const cost = await costOfKeptPlan(database.db, (db) => call(new QuoteWatchStore(db), held));
  expect(cost.rows).toBeGreaterThanOrEqual(held.length);
  expect(cost.rows).toBeLessThanOrEqual(5 * held.length);
});

function paid(id: number) {
  return { id, state: 'PAID', nextCheck: null, payment: { paidAtMs: 1, paidSeq: 1 } } as const;
}

describe.each([
  ['many', ALL_QUOTES],
  // To read them all takes ten times as long as to look for one, and a plan for a hundred does that.
  ['some thousand', 3_000],
])('of one payment among %s', (_amount, quotes) => {
  beforeAll(async () => {
    await sql`delete from quotes where id > ${quotes}`.execute(database.db);
    await sql`vacuum analyze quotes`.execute(database.db);
  });

  const nowMs = Date.now();
  const nextCheck = { atMs: nowMs + 60_000, checkClass: 1 } as const;

  it.each([
    [
      'the counter of its recipient is locked',
      ({ users }: Store, { pubkey }: HeldQuote) => users.lockPaymentCounters([pubkey]),
    ],
    [
      'all that changes is recorded',
      ({ watch }: Store, { id, checkedAtMs }: HeldQuote) =>
        watch.recordChanges([{ ...paid(id), from: 'UNPAID', checkedAtMs }], 'poll', nowMs),
    ],
    [
      'the quote is changed',
      ({ watch }: Store, { id }: HeldQuote) => watch.applyChanges([paid(id)], nowMs),
    ],
    [
      'the next check is planned',
      ({ watch }: Store, { id }: HeldQuote) =>
        watch.reschedule([{ id, state: 'UNPAID', nextCheck }], nowMs),
    ],
  ])('%s without reading the others', async (_what, call) => {
    const [quote] = await new QuoteWatchStore(database.db).findHeld(BIG_MINT, ['id-1']);
    const cost = await costOfKeptPlan(database.db, (db) => call(new Store(db), quote as HeldQuote));
    expect(cost.rows).toBeLessThanOrEqual(10);
    expect(cost.pages).toBeLessThan(200);
  });
});
