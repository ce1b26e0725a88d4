import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import { TraceStore } from '../../src/operator/trace/trace-store.ts';
import { QuoteStore } from '../../src/quotes/quote-store.ts';
import { WatchedQuoteStore } from '../../src/quotes/watched-quote-store.ts';
import { Store } from '../../src/store.ts';
import { ReceiptDeliveryStore } from '../../src/zaps/receipt-delivery-store.ts';
import { useDatabase } from '../helpers/database.ts';
import { measureQueryCost } from '../helpers/query-cost.ts';
import {
  buildUnpaidQuote,
  FIRST_PAID_AT_MS,
  insertPayments,
  randomPubkey,
} from '../helpers/quotes.ts';
import { insertReceipts } from '../helpers/zap-receipt-outbox.ts';

/** Frequent queries read only the rows that they return, however many there are. */

const MINUTE_MS = 60_000;
const OPEN_QUOTES = 3_000;
const PAYMENTS = 5_050;
const ADDRESS_GROUP = 'a1b2c3d4e5f60718';

const database = useDatabase();
/** A recipient with many payments and many open quotes. */
let pubkey: string;
/** A quote of another recipient. */
const wanted = buildUnpaidQuote(randomPubkey(), { mintUrl: 'https://m2.example' });
const { paymentHash, quoteId, verifyToken } = wanted;

beforeAll(async () => {
  await sql`insert into users (pubkey) select gen_random_uuid() from generate_series(1, 3000)`.execute(
    database.db,
  );
  pubkey = randomPubkey();
  await insertPayments(database, pubkey, PAYMENTS);
  await insertOpen(OPEN_QUOTES, { mint: 'm1', recipient: pubkey });
  await new Store(database.db).quotes.insert([wanted]);
  for (const mint of ['m3', 'm4']) {
    await insertOpen(OPEN_QUOTES, { mint, recipient: randomPubkey() });
    await insertPayments(database, randomPubkey(), OPEN_QUOTES);
  }
  await insertOpen(500, { mint: 'm4', recipient: randomPubkey(), group: ADDRESS_GROUP });
  await insertOpen(30, { mint: 'm1', recipient: pubkey, group: ADDRESS_GROUP });
});

describe.each([
  ['without statistics', false],
  ['with statistics', true],
])('%s', (_when, isAnalyzed) => {
  beforeAll(async () => {
    if (isAnalyzed) {
      await sql`vacuum analyze`.execute(database.db);
    }
  });

  it.each([
    ['a payment hash', 1, (traces: TraceStore) => traces.findByPaymentHash(paymentHash, 5)],
    // A row for each of the five mints, and the quote twice.
    ['a quote id', 7, (traces: TraceStore) => traces.findByQuoteId(quoteId, 5)],
    // Ten, and the recipient's counter.
    ["a recipient's payments", 11, (traces: TraceStore) => traces.listPayments(pubkey, 10)],
    ["a recipient's open quotes", 11, (traces: TraceStore) => traces.listOpenQuotes(pubkey, 11)],
  ])('a trace by %s reads %i rows', async (_what, rows, call) => {
    const cost = await measureQueryCost(database.db, (db) => call(new TraceStore(db)));
    // PostgreSQL 15 rounds the averages of loops.
    expect(cost.rowsRead).toBeGreaterThan(0);
    expect(cost.rowsRead).toBeLessThanOrEqual(rows);
    expect(cost.pagesRead).toBeLessThan(60);
  });

  it('reads a page at offset 5,000 for the same cost as the first page', async () => {
    const costOfPage = (wanted: { sinceSeconds?: number; offset: number }) =>
      measureQueryCost(database.db, (db) =>
        new QuoteStore(db).listPaid(pubkey, { sinceSeconds: null, limit: 50, ...wanted }),
      );
    for (const offset of [0, 5_000]) {
      const { rowsRead: rows, pagesRead: pages } = await costOfPage({ offset });
      // The page itself, and the recipient's counter.
      expect(rows).toBe(51);
      expect(pages).toBeLessThan(30);
    }
    const sinceSeconds = FIRST_PAID_AT_MS / 1000 + 10;
    for (const offset of [0, 4_900]) {
      // Also the last payment before `since`, and the one before that, which could have the same time.
      expect((await costOfPage({ sinceSeconds, offset })).rowsRead).toBe(53);
    }
  });

  it('reads one row for a verify token, and none for an unknown token', async () => {
    for (const [token, rows] of [
      [verifyToken, 1],
      ['0'.repeat(64), 0],
    ] as const) {
      const cost = await measureQueryCost(database.db, (db) =>
        new QuoteStore(db).findByVerifyToken(token),
      );
      expect(cost.rowsRead).toBe(rows);
      expect(cost.pagesRead).toBeLessThan(10);
    }
  });

  it('counts open invoices up to the limits only', async () => {
    const limits = { perRecipient: 100, perAddressGroup: 30, perPair: 10 };
    const counted = { min: 10 * MINUTE_MS, max: 60 * MINUTE_MS };
    const payer = { pubkey, addressGroupHash: ADDRESS_GROUP };
    const { rowsRead: rows } = await measureQueryCost(database.db, (db) =>
      new QuoteStore(db).countOpenInvoices(payer, limits, counted, Date.now()),
    );
    expect(rows).toBeGreaterThanOrEqual(100 + 30 + 10);
    // The pair is counted among the group's open invoices.
    expect(rows).toBeLessThanOrEqual(100 + 30 + 530);
  });
});

it('finds only the quote of a verify token', async () => {
  const store = new QuoteStore(database.db);
  const found = { request: wanted.request, state: 'UNPAID' };
  expect(await store.findByVerifyToken(verifyToken)).toEqual(found);
  const hash = createHash('sha256').update(verifyToken).digest('hex');
  for (const wrong of [verifyToken.slice(1), `${verifyToken}0`, hash, '', '\\x00']) {
    expect(await store.findByVerifyToken(wrong), wrong).toBeNull();
  }
});

it('finds watched mints with one index entry each', async () => {
  await sql`vacuum analyze quotes`.execute(database.db);
  const { rowsRead: rows, pagesRead: pages } = await measureQueryCost(database.db, (db) =>
    new WatchedQuoteStore(db).listWatchedMints(),
  );
  // PostgreSQL 15 rounds the averages of the loops.
  expect(rows).toBeLessThanOrEqual(4 * 3);
  expect(pages).toBeLessThan(40);
});

it('finds new quotes of all mints without reading other rows', async () => {
  const store = new WatchedQuoteStore(database.db);
  const newest = await store.findMaxId();
  await insertOpen(5, { mint: 'm5', recipient: pubkey });
  await sql`analyze quotes`.execute(database.db);
  for (const read of [
    (db: typeof database.db) => new WatchedQuoteStore(db).listWatchedAfter(newest, 1_000),
    (db: typeof database.db) => new WatchedQuoteStore(db).findMaxId(),
  ]) {
    const { rowsRead: rows, pagesRead: pages } = await measureQueryCost(database.db, read);
    expect(rows).toBeLessThanOrEqual(5);
    expect(pages).toBeLessThan(10);
  }
});

describe('a large outbox of zap receipts', () => {
  const MADE_AT_MS = Date.now();
  const relays = Array.from({ length: 20 }, (_, index) => `wss://${index}.example`);

  it.each([
    ['nothing is open', false],
    ['everything is open', true],
  ])('is scanned and claimed cheaply with statistics that %s', async (_what, isOpen) => {
    const plant = () => insertReceipts(database, { events: 300, relays, createdAtMs: MADE_AT_MS });
    const analyze = () => sql`analyze zap_receipt_deliveries, zap_receipts`.execute(database.db);
    if (isOpen) {
      await plant();
      await analyze();
    } else {
      await plant();
      await sql`update zap_receipt_deliveries set state = 'accepted', next_attempt_at = null`.execute(
        database.db,
      );
      await analyze();
      await plant();
    }
    const due = await measureQueryCost(database.db, (db) =>
      new ReceiptDeliveryStore(db).findDueRelays(MADE_AT_MS),
    );
    expect(due.rowsRead).toBeLessThanOrEqual(6 * relays.length);
    const claim = { nowMs: MADE_AT_MS, claimedUntilMs: MADE_AT_MS, limit: 10 };
    const claimed = await measureQueryCost(database.db, (db) =>
      new ReceiptDeliveryStore(db).claimDue('wss://7.example', claim),
    );
    // Selected, locked, updated, with the receipt and the payment hash of each.
    expect(claimed.rowsRead).toBeLessThanOrEqual(10 * 10);
  });
});

/** Inserts open quotes, a second apart, the newest of them created now. */
async function insertOpen(
  count: number,
  { mint, recipient, group = null }: { mint: string; recipient: string; group?: string | null },
): Promise<void> {
  const nowMs = Date.now();
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
                        expires_at, watch_until, payment_hash, address_group_hash,
                        verify_token_hash)
    select ${`https://${mint}.example`}, gen_random_uuid(), ${recipient}, 'lnbc1', 21, 'UNPAID', 0,
           ${nowMs}::bigint - number * 1000, ${nowMs + 60 * MINUTE_MS}::bigint, ${nowMs + 24 * 60 * MINUTE_MS}::bigint,
           encode(sha256(random()::text::bytea), 'hex'), ${group},
           encode(sha256(random()::text::bytea), 'hex')
    from generate_series(1, ${count}::int) as number
  `.execute(database.db);
}
