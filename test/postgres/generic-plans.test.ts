import { sql } from 'kysely';
import { beforeAll, expect, it } from 'vitest';
import type { QuoteChange, StoredQuote } from '../../src/quotes/watched-quote-store.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';
import { measureQueryCost } from '../helpers/query-cost.ts';

/** A generic plan does not depend on the mint, so it must suit the largest of many. */

const BIG_MINT = 'https://big.example';
const QUOTES_OF_BIG = 20_000;
const SMALL_MINTS = 2_000;
const QUOTES = QUOTES_OF_BIG + 2 * SMALL_MINTS;
const RECIPIENTS = 5_000;

/** A hundred ids of that mint's quotes. */
const QUOTE_IDS = Array.from({ length: 100 }, (_, index) => `id-${index + 1}`);

const database = useDatabase();

beforeAll(async () => {
  const { db } = database;
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                        created_at, expires_at, watch_until)
    select case when n <= ${QUOTES_OF_BIG}::int then ${BIG_MINT}
                else 'https://m' || n % ${SMALL_MINTS}::int || '.example' end,
           'id-' || n, md5(n::text), 'lnbc1', 21, 'UNPAID', 0, n, n, n
    from generate_series(1, ${QUOTES}::int) as n`.execute(db);
  await sql`
    insert into users (pubkey)
    select md5(n::text) from generate_series(1, ${RECIPIENTS}::int) as n`.execute(db);
  await sql`analyze quotes, users`.execute(db);
});

it.each<[string, number, (store: Store, held: StoredQuote[]) => Promise<unknown>]>([
  ['finds quotes', 100, ({ watchedQuotes: watch }) => watch.findByQuoteIds(BIG_MINT, QUOTE_IDS)],
  ['locks quotes', 100, ({ watchedQuotes: watch }) => watch.lockByQuoteIds(BIG_MINT, QUOTE_IDS)],
  [
    'lists quotes',
    100,
    ({ watchedQuotes: watch }) => watch.listWatchedByMint(BIG_MINT, QUOTES_OF_BIG - 100, 1_000),
  ],
  ['changes quotes', 100, ({ watchedQuotes: watch }, held) => watch.applyChanges(held.map(paid))],
  [
    'locks the counter of a recipient',
    1,
    ({ users }, [first]) => users.lockPaymentCounters([first?.pubkey ?? '']),
  ],
  ['locks one quote', 1, ({ watchedQuotes: watch }) => watch.lockByQuoteIds(BIG_MINT, ['id-1'])],
  [
    'changes one quote',
    1,
    ({ watchedQuotes: watch }, held) => watch.applyChanges(held.slice(0, 1).map(paid)),
  ],
  [
    'saves the counter of a recipient',
    1,
    ({ users }, [first]) =>
      users.savePaymentCounters([{ pubkey: first?.pubkey ?? '', paidCount: 1, lastPaidAtMs: 1 }]),
  ],
])('%s of a mint with most of them (%i) without reading the others', async (_what, count, call) => {
  const held = await new Store(database.db).watchedQuotes.findByQuoteIds(BIG_MINT, QUOTE_IDS);
  const cost = await measureQueryCost(database.db, (db) => call(new Store(db), held));
  expect(cost.rowsRead).toBeLessThanOrEqual(10 + 5 * count);
  expect(cost.pagesRead).toBeLessThan(200 + 40 * count);
});

function paid({ id }: StoredQuote): QuoteChange {
  return { id, state: 'PAID', watchUntilMs: 2, payment: { paidAtMs: 1, paidSeq: 1 } };
}
