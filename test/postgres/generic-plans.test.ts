import { sql } from 'kysely';
import { beforeAll, expect, it } from 'vitest';
import type { Tx } from '../../src/database/transaction.ts';
import type { Quote } from '../../src/quotes/quote-store.ts';
import type { QuoteChange } from '../../src/quotes/watched-quote-store.ts';
import {
  applyQuoteChanges,
  findQuotesById,
  listWatchedByMint,
  lockQuotesById,
} from '../../src/quotes/watched-quote-store.ts';
import { lockPaymentCounters, savePaymentCounters } from '../../src/recipients/user-store.ts';
import { measureQueryCost } from '../helpers/database/postgres-query-cost.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';

/**
 * PostgreSQL plans a prepared statement once for all parameters (a generic plan). So the plan must also be good for a
 * mint that has most of the quotes.
 */

const LARGE_MINT_URL = 'https://large.example';
const LARGE_MINT_QUOTE_COUNT = 20_000;
const SMALL_MINT_COUNT = 2_000;
const QUOTE_COUNT = LARGE_MINT_QUOTE_COUNT + 2 * SMALL_MINT_COUNT;
const RECIPIENT_COUNT = 5_000;

/** Quotes of the large mint. */
const QUOTE_IDS = Array.from({ length: 100 }, (_, index) => `id-${index + 1}`);

const database = useTestDatabase();

beforeAll(async () => {
  const { db } = database;
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                        created_at, expires_at, watch_until)
    select case when n <= ${LARGE_MINT_QUOTE_COUNT}::int then ${LARGE_MINT_URL}
                else 'https://m' || n % ${SMALL_MINT_COUNT}::int || '.example' end,
           'id-' || n, md5(n::text), 'lnbc1', 21, 'UNPAID', 0, n, n, n
    from generate_series(1, ${QUOTE_COUNT}::int) as n`.execute(db);
  await sql`
    insert into users (pubkey)
    select md5(n::text) from generate_series(1, ${RECIPIENT_COUNT}::int) as n`.execute(db);
  await sql`analyze quotes, users`.execute(db);
});

it.each<[string, number, (tx: Tx, quotes: Quote[]) => Promise<unknown>]>([
  ['finds 100 quotes', 100, (tx) => findQuotesById(tx, LARGE_MINT_URL, QUOTE_IDS)],
  ['locks 100 quotes', 100, (tx) => lockQuotesById(tx, LARGE_MINT_URL, QUOTE_IDS)],
  [
    'lists the last 100 quotes',
    100,
    (tx) => listWatchedByMint(tx, LARGE_MINT_URL, LARGE_MINT_QUOTE_COUNT - 100, 1_000),
  ],
  ['changes 100 quotes', 100, (tx, quotes) => applyQuoteChanges(tx, quotes.map(toPaid))],
  [
    'locks the payment counter of one recipient',
    1,
    (tx, [first]) => lockPaymentCounters(tx, [first?.pubkey ?? '']),
  ],
  [
    'saves the payment counter of one recipient',
    1,
    (tx, [first]) =>
      savePaymentCounters(tx, [{ pubkey: first?.pubkey ?? '', paidCount: 1, lastPaidAtMs: 1 }]),
  ],
])(
  '%s without reading many other rows, at a mint with most quotes',
  async (_name, rowCount, call) => {
    const quotes = await findQuotesById(database.db, LARGE_MINT_URL, QUOTE_IDS);
    const cost = await measureQueryCost(database.db, (db) => call(db, quotes));
    expect(cost.rowsRead).toBeLessThanOrEqual(10 + 5 * rowCount);
    expect(cost.pagesRead).toBeLessThan(200 + 40 * rowCount);
  },
);

function toPaid({ id }: Quote): QuoteChange {
  return { id, state: 'PAID', watchUntilMs: 2, payment: { paidAtMs: 1, paidSeq: 1 } };
}
