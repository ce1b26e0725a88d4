import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import { deleteOldRows, TABLES_WITH_RETENTION } from '../../src/database/retention-store.ts';
import type { Db, Tx } from '../../src/database/transaction.ts';
import { findTracedQuotes, searchQuotes } from '../../src/operator/trace/trace-store.ts';
import { countOpenInvoices } from '../../src/quotes/open-invoice-store.ts';
import { findListedQuotes, listPaidQuotes } from '../../src/quotes/paid-list-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import {
  applyQuoteChanges,
  findMaxRowId,
  findQuotesByQuoteId,
  listWatchedAfter,
  listWatchedByMint,
  listWatchedMints,
  lockQuotesByQuoteId,
  type QuoteChange,
} from '../../src/quotes/watched-quote-store.ts';
import { lockPaymentCounters, savePaymentCounters } from '../../src/recipients/user-store.ts';
import {
  claimDueReceipts,
  findDueRelays,
  listDeliveryRelays,
  pruneZapRequests,
} from '../../src/zaps/zap-receipt-store.ts';
import { measureQueryCost } from '../helpers/database/postgres-query-cost.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  FIRST_PAID_AT_MS,
  insertPaidQuotes,
  randomPubkey,
} from '../helpers/recipients/quote-fixtures.ts';
import { insertZapReceipts } from '../helpers/relays/zap-receipt-deliveries.ts';

/** Frequent queries must not read many more rows than they return, however large the tables are. */

const MINUTE_MS = 60_000;
const OPEN_QUOTE_COUNT = 3_000;
const LARGE_MINT_URL = 'https://large.example';
const PAYMENT_COUNT = 5_050;
/** The hashes of an IPv4 address and of its /24. */
const ADDRESS_HASHES = 'a1b2c3d4e5f60718';
const NEIGHBOUR_HASHES = 'a1b2c3d4ffffffff';
const OTHER_ADDRESS_HASHES = 'b1b2c3d4e5f60718';

const NEXT_SECOND_MS = FIRST_PAID_AT_MS + 10_000;

const database = useTestDatabase();
let pubkey: string;
/** 500 of the payments are listed. The other 2,000 are dated {@link NEXT_SECOND_MS}. */
const burstRecipient = randomPubkey();
const quote = buildUnpaidQuote(randomPubkey(), { mintUrl: 'https://m2.example' });
const { paymentHash, quoteId } = quote;

beforeAll(async () => {
  await sql`insert into users (pubkey) select gen_random_uuid() from generate_series(1, 3000)`.execute(
    database.db,
  );
  pubkey = randomPubkey();
  await insertPaidQuotes(database, pubkey, PAYMENT_COUNT);
  const burstTimes = Array.from({ length: 2_500 }, (_, i) =>
    Math.min(FIRST_PAID_AT_MS + i * 20, NEXT_SECOND_MS),
  );
  await insertPaidQuotes(
    database,
    burstRecipient,
    burstTimes.map((paidAtMs) => ({ paidAtMs })),
  );
  await database.db
    .updateTable('users')
    .set({ listed_until: NEXT_SECOND_MS })
    .where('pubkey', '=', burstRecipient)
    .execute();
  await insertOpenQuotes(OPEN_QUOTE_COUNT, 'm1', pubkey, OTHER_ADDRESS_HASHES);
  await insertQuotes(database.db, [quote]);
  for (const mint of ['m3', 'm4']) {
    await insertOpenQuotes(OPEN_QUOTE_COUNT, mint, randomPubkey());
    await insertPaidQuotes(database, randomPubkey(), OPEN_QUOTE_COUNT);
  }
  await insertOpenQuotes(500, 'm4', randomPubkey(), ADDRESS_HASHES);
  await insertOpenQuotes(OPEN_QUOTE_COUNT, 'm4', randomPubkey(), NEIGHBOUR_HASHES, 120 * MINUTE_MS);
  await insertOpenQuotes(30, 'm1', pubkey, ADDRESS_HASHES);
  await insertOpenQuotes(20_000, 'large', randomPubkey());
});

describe.each([
  ['without table statistics', false],
  ['with table statistics', true],
])('PostgreSQL %s', (_name, isAnalyzed) => {
  beforeAll(async () => {
    if (isAnalyzed) {
      await sql`vacuum analyze`.execute(database.db);
    }
  });

  it.each([
    [1, 'a payment hash', (db: Db) => findTracedQuotes(db, 'payment_hash', paymentHash, 5)],
    [1, 'a quote id', (db: Db) => findTracedQuotes(db, 'quote_id', quoteId, 5)],
    [10, 'the payments of a recipient', (db: Db) => searchQuotes(db, pubkey, 'paid', null, 10)],
    [
      11,
      'the open quotes of a recipient',
      (db: Db) => searchQuotes(db, pubkey, 'unpaid', null, 11),
    ],
  ])('reads at most %i rows for a trace of %s', async (maxRows, _name, call) => {
    const cost = await measureQueryCost(database.db, call);
    // The number is not exact, because PostgreSQL 15 rounds the average rows per loop.
    expect(cost.rowsRead).toBeGreaterThan(0);
    expect(cost.rowsRead).toBeLessThanOrEqual(maxRows);
    expect(cost.pagesRead).toBeLessThan(60);
  });

  it('reads as much for a page of the paid list at offset 5,000 as for the first page', async () => {
    for (const offset of [0, 5_000]) {
      const { rowsRead, pagesRead } = await measurePage(pubkey, Date.now(), offset);
      // The 50 rows of the page, and the row of the recipient twice.
      expect(rowsRead).toBe(52);
      expect(pagesRead).toBeLessThan(30);
    }
    const sinceSeconds = FIRST_PAID_AT_MS / 1000 + 10;
    for (const offset of [0, 4_900]) {
      // Also the last two payments before `since`, which could have the same time.
      const { rowsRead } = await measurePage(pubkey, Date.now(), offset, sinceSeconds);
      expect(rowsRead).toBe(54);
    }
  });

  it('reads as much for a page of the paid list if thousands of payments are not listed yet', async () => {
    for (const offset of [0, 200]) {
      const nowMs = NEXT_SECOND_MS - 1_000;
      const { rowsRead, pagesRead } = await measurePage(burstRecipient, nowMs, offset);
      // The page, the row of the recipient twice, and the last two listed payments, which could have the same time.
      expect(rowsRead).toBe(54);
      expect(pagesRead).toBeLessThan(30);
    }
  });

  it('reads one row for each listed quote that it finds by its id', async () => {
    const rows = await database.db
      .selectFrom('quotes')
      .select('quote_id')
      .where('pubkey', '=', pubkey)
      .where('paid_seq', 'is not', null)
      .limit(20)
      .execute();
    const ids = rows.map((row) => row.quote_id);
    const { rowsRead, pagesRead } = await measureQueryCost(database.db, (db) =>
      findListedQuotes(db, pubkey, [...ids, 'unknown'], Date.now()),
    );
    // Also the row of the recipient, twice.
    expect(rowsRead).toBe(ids.length + 2);
    // An index has a level more if its pages were split often, which depends on the order of the random ids.
    expect(pagesRead).toBeLessThan(10 * ids.length);
  });

  it.each([
    ['all limits', { perRecipient: 100, perPair: 80, perAddress: [30, 240] }, 370],
    ['no limit per address', { perRecipient: 100, perPair: 80, perAddress: [0, 0] }, 100],
    ['no limits', { perRecipient: 0, perPair: 0, perAddress: [0, 0] }, 0],
    // Does not read the older invoices of the neighbour.
    [
      'limits that are not reached',
      { perRecipient: 5_000, perPair: 80, perAddress: [5_000, 5_000] },
      4_090,
    ],
  ])('stops reading at the limits when it counts open invoices with %s', async (_, limits, max) => {
    const ageLimitsMs = { min: 10 * MINUTE_MS, max: 60 * MINUTE_MS };
    const payer = { pubkey, addressHashes: [ADDRESS_HASHES, ADDRESS_HASHES.slice(0, 8)] };
    const { rowsRead: rows } = await measureQueryCost(database.db, (db) =>
      countOpenInvoices(db, payer, limits, ageLimitsMs, Date.now()),
    );
    expect(rows).toBe(max);
  });
});

function measurePage(
  recipient: string,
  nowMs: number,
  offset: number,
  sinceSeconds: number | null = null,
) {
  return measureQueryCost(database.db, (db) =>
    listPaidQuotes(db, recipient, { sinceSeconds, limit: 50, offset }, nowMs),
  );
}

it('finds the watched mints with a few index entries per mint', async () => {
  await sql`vacuum analyze quotes`.execute(database.db);
  const { rowsRead, pagesRead } = await measureQueryCost(database.db, listWatchedMints);
  // Three entries for each of five mints. Not exact, because PostgreSQL 15 rounds the average rows per loop.
  expect(rowsRead).toBeLessThanOrEqual(5 * 3);
  expect(pagesRead).toBeLessThan(40);
});

// PostgreSQL plans a prepared statement once for all parameters, so the plan must also be good for such a mint.
describe('at a mint with most of the quotes', () => {
  let quoteIds: string[];
  let quotes: Awaited<ReturnType<typeof listWatchedByMint>>;

  beforeAll(async () => {
    const maxId = await findMaxRowId(database.db);
    quotes = await listWatchedByMint(database.db, LARGE_MINT_URL, maxId - 100, 1_000);
    quoteIds = quotes.map((each) => each.quoteId);
    expect(quoteIds).toHaveLength(100);
  });

  it.each<[string, number, (tx: Tx) => Promise<unknown>]>([
    ['finds 100 quotes', 100, (tx) => findQuotesByQuoteId(tx, LARGE_MINT_URL, quoteIds)],
    ['locks 100 quotes', 100, (tx) => lockQuotesByQuoteId(tx, LARGE_MINT_URL, quoteIds)],
    [
      'lists the last 100 quotes',
      100,
      (tx) => listWatchedByMint(tx, LARGE_MINT_URL, (quotes[0]?.id ?? 0) - 1, 1_000),
    ],
    ['changes 100 quotes', 100, (tx) => applyQuoteChanges(tx, quotes.map(toPaid))],
    ['locks the payment counter of one recipient', 1, (tx) => lockPaymentCounters(tx, [pubkey])],
    [
      'saves the payment counter of one recipient',
      1,
      (tx) => savePaymentCounters(tx, [{ pubkey, paidCount: 1, lastPaidAtMs: 1 }]),
    ],
  ])('%s without reading many other rows', async (_name, rowCount, call) => {
    const { rowsRead, pagesRead } = await measureQueryCost(database.db, call);
    expect(rowsRead).toBeLessThanOrEqual(10 + 5 * rowCount);
    expect(pagesRead).toBeLessThan(200 + 40 * rowCount);
  });
});

function toPaid({ id }: { id: number }): QuoteChange {
  return { id, state: 'PAID', watchUntilMs: 2, payment: { paidAtMs: 1, paidSeq: id } };
}

it('finds new quotes without reading older ones', async () => {
  const maxIdBefore = await findMaxRowId(database.db);
  await insertOpenQuotes(5, 'm5', pubkey);
  await sql`analyze quotes`.execute(database.db);
  for (const query of [(db: Db) => listWatchedAfter(db, maxIdBefore, 1_000), findMaxRowId]) {
    const { rowsRead, pagesRead } = await measureQueryCost(database.db, query);
    expect(rowsRead).toBeLessThanOrEqual(5);
    expect(pagesRead).toBeLessThan(10);
  }
});

describe('a query for due zap receipts', () => {
  const CREATED_AT_MS = Date.now();
  const relayUrls = Array.from({ length: 20 }, (_, index) => `wss://${index}.example`);

  it.each([
    ['no delivery is open', false],
    ['all deliveries are open', true],
  ])('reads few rows, even if the table statistics say that %s', async (_name, isOpen) => {
    const insertReceipts = () =>
      insertZapReceipts(database, { events: 300, relays: relayUrls, createdAtMs: CREATED_AT_MS });
    const analyze = () => sql`analyze zap_receipt_deliveries, zap_receipts`.execute(database.db);
    await insertReceipts();
    if (!isOpen) {
      await sql`update zap_receipt_deliveries set state = 'accepted', next_attempt_at = null`.execute(
        database.db,
      );
    }
    await analyze();
    await insertReceipts();
    const findCost = await measureQueryCost(database.db, (db) =>
      findDueRelays(db, CREATED_AT_MS, relayUrls.slice(0, 15)),
    );
    expect(findCost.rowsRead).toBeLessThanOrEqual(6 * 15);
    const listCost = await measureQueryCost(database.db, (db) => listDeliveryRelays(db, '', 15));
    expect(listCost.rowsRead).toBeLessThanOrEqual(4 * 15);
    const claimCost = await measureQueryCost(database.db, (db) =>
      claimDueReceipts(db, 'wss://7.example', CREATED_AT_MS, 10),
    );
    // For each claimed delivery, the query selects, locks and updates a row, and reads its receipt and its quote.
    expect(claimCost.rowsRead).toBeLessThanOrEqual(10 * 10);
  });
});

it('reads no recent rows when it deletes old history', async () => {
  const nowMs = Date.now();
  await sql`
    update quotes set zap_request = '{}', state = 'ISSUED', paid_at = ${nowMs}
    where pubkey = ${pubkey} and paid_seq is not null`.execute(database.db);
  await sql`
    insert into quote_events (quote, at, kind, detail)
    select id, ${nowMs}, 'update_sent', '{}' from quotes where pubkey = ${pubkey}`.execute(
    database.db,
  );
  await insertZapReceipts(database, { events: 300, relays: [], createdAtMs: nowMs });
  await sql`
    insert into mints (url, info, fetched_at)
    select 'https://' || number || '.example', '{}', ${nowMs}::bigint
    from generate_series(1, 3000) as number`.execute(database.db);
  await sql`vacuum analyze`.execute(database.db);
  for (const prune of [
    pruneZapRequests,
    ...TABLES_WITH_RETENTION.map((table) => (db: Db) => deleteOldRows(db, table, 500)),
  ]) {
    const { rowsRead, pagesRead } = await measureQueryCost(database.db, (db) => prune(db, 500));
    // At most the row with the current time.
    expect(rowsRead).toBeLessThanOrEqual(1);
    expect(pagesRead).toBeLessThan(10);
  }
});

/** Inserts open quotes. The newest one was created a second before `ageMs`, and each other one a second earlier. */
async function insertOpenQuotes(
  count: number,
  mint: string,
  recipient: string,
  hashes: string | null = null,
  ageMs = 0,
): Promise<void> {
  const nowMs = Date.now();
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
                        expires_at, watch_until, payment_hash, address_hashes,
                        verify_token_hash)
    select ${`https://${mint}.example`}, gen_random_uuid(), ${recipient}, 'lnbc1', 21, 'UNPAID', 0,
           ${nowMs - ageMs}::bigint - number * 1000, ${nowMs + 60 * MINUTE_MS}::bigint, ${nowMs + 24 * 60 * MINUTE_MS}::bigint,
           encode(sha256(random()::text::bytea), 'hex'), ${hashes},
           encode(sha256(random()::text::bytea), 'hex')
    from generate_series(1, ${count}::int) as number
  `.execute(database.db);
}
