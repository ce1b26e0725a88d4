import { CompiledQuery, createQueryId, type RootOperationNode, sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Database, openDatabase } from '../../src/database/database.ts';
import { transaction } from '../../src/database/transaction.ts';
import {
  countPendingDeliveries,
  countWatchedQuotes,
  readDatabaseSize,
} from '../../src/metrics/database-counts-store.ts';
import { pruneUnusedMints } from '../../src/mints/mint-store.ts';
import { resetSequencesAndAnalyze } from '../../src/operator/archive/archive-store.ts';
import {
  findTracedQuotesByPaymentHash,
  findTracedQuotesByQuoteId,
  searchPayments,
  searchUnpaidQuotes,
} from '../../src/operator/trace/trace-store.ts';
import { countOpenInvoices } from '../../src/quotes/open-invoice-store.ts';
import {
  findListedQuotes,
  listPaidQuotes,
  summarisePaidQuotes,
} from '../../src/quotes/paid-list-store.ts';
import {
  addQuoteEvents,
  listQuoteEvents,
  listUpdatesSince,
  pruneQuoteEvents,
} from '../../src/quotes/quote-event-store.ts';
import { findQuoteByVerifyToken } from '../../src/quotes/quote-store.ts';
import type { QuoteChange } from '../../src/quotes/watched-quote-store.ts';
import {
  applyQuoteChanges,
  listWatchedAfter,
  listWatchedByMint,
  listWatchedMints,
  lockQuotesById,
} from '../../src/quotes/watched-quote-store.ts';
import {
  findUserByName,
  findUserByPubkey,
  lockPaymentCounters,
  savePaymentCounters,
} from '../../src/recipients/user-store.ts';
import { TransactionStore } from '../../src/store.ts';
import { findUsername } from '../../src/usernames/username-store.ts';
import {
  claimDueReceipts,
  findDueRelays,
  giveUpOverdueDeliveries,
  listWaitingRelays,
} from '../../src/zaps/receipt-delivery-store.ts';
import {
  countReceiptsSince,
  findReceiptOfQuote,
  findUsedZapRequests,
  findZapRequests,
  pruneZapReceipts,
  pruneZapRequests,
} from '../../src/zaps/zap-receipt-store.ts';
import { createDataDir, isPostgres } from '../helpers/database/test-database.ts';
import { randomPubkey } from '../helpers/recipients/quote-fixtures.ts';

/** Checks the query plans of SQLite. test/postgres/query-cost.test.ts measures queries on PostgreSQL. */

const MINT_URL = 'https://mint.example';
const USER_COUNT = 2_000;
const QUOTE_COUNT = 10_000;
const RELAY_URL = 'wss://relay.example';

/**
 * A plan step that reads a whole growing table. A scan of `zap_receipt_deliveries_due` is fine, because this index
 * contains only pending deliveries.
 */
const FULL_SCAN =
  /^SCAN (quotes|users|usernames|mints|quote_events|earlier|zap_receipts|zap_receipt_deliveries|delivery)\b(?! .* zap_receipt_deliveries_due)/;

type StoreCall = (store: TransactionStore) => Promise<unknown>;

const pubkeys = Array.from({ length: USER_COUNT }, randomPubkey);
const FILTER = { sinceMs: 1, untilMs: 2, amountSat: 21 };
const [pubkey = ''] = pubkeys;
const quoteIds = Array.from({ length: 100 }, (_, index) => `id-${index + 1}`);
const counters = pubkeys.map((each) => ({ pubkey: each, paidCount: 1, lastPaidAtMs: 1 }));
const changes = Array.from({ length: 2_000 }, (_, index): QuoteChange => {
  const state = 'UNPAID';
  return { id: index + 1, state, watchUntilMs: null, payment: null };
});

const CALLS: [name: string, call: StoreCall][] = [
  ['finds the owner of a name', ({ db }) => findUserByName(db, 'alice')],
  ['finds out whether a name is available', ({ db }) => findUsername(db, 'alice')],
  ['finds a recipient by key', ({ db }) => findUserByPubkey(db, pubkey)],
  [
    'counts open invoices',
    ({ db }) =>
      countOpenInvoices(
        db,
        { pubkey, addressHashes: ['a1b2', 'a1'] },
        { perRecipient: 100, perPair: 20, perAddress: [30, 60] },
        { min: 1, max: 1_000 },
        QUOTE_COUNT,
      ),
  ],
  [
    'lists payments',
    ({ db }) => listPaidQuotes(db, pubkey, { sinceSeconds: 1, limit: 50, offset: 0 }, 1),
  ],
  ['finds listed quotes by id', ({ db }) => findListedQuotes(db, pubkey, quoteIds, 1)],
  ['adds up payments', ({ db }) => summarisePaidQuotes(db, pubkey, 2_000)],
  ['finds an invoice by its verify token', ({ db }) => findQuoteByVerifyToken(db, 'token')],
  ['lists watched mints', ({ db }) => listWatchedMints(db)],
  ['lists new quotes', ({ db }) => listWatchedAfter(db, QUOTE_COUNT - 10, 1_000)],
  ['lists the watched quotes of a mint', ({ db }) => listWatchedByMint(db, MINT_URL, 100, 1_000)],
  ['locks watched quotes by id', ({ tx }) => lockQuotesById(tx, MINT_URL, quoteIds)],
  ['applies changes to quotes', ({ tx }) => applyQuoteChanges(tx, changes)],
  ['locks payment counters', ({ tx }) => lockPaymentCounters(tx, pubkeys.slice(0, 100))],
  ['saves payment counters', ({ tx }) => savePaymentCounters(tx, counters)],
  [
    'adds events',
    ({ db }) =>
      addQuoteEvents(db, [{ quoteRowId: 1, atMs: 1, kind: 'update_sent', socketCount: 1 }]),
  ],
  ['lists the events of a quote', ({ db }) => listQuoteEvents(db, 1)],
  [
    'finds changes since a time',
    ({ db }) => listUpdatesSince(db, QUOTE_COUNT, { pubkeys: [pubkey], nowMs: 1 }),
  ],
  ['deletes unused mints', ({ db }) => pruneUnusedMints(db, 1_000)],
  ['deletes old events', ({ db }) => pruneQuoteEvents(db, 1_000)],
  ['finds zap requests', ({ db }) => findZapRequests(db, [1, 2])],
  ['finds the receipt of a quote', ({ db }) => findReceiptOfQuote(db, 1)],
  ['deletes old zap receipts', ({ db }) => pruneZapReceipts(db, 1_000)],
  ['finds used zap requests', ({ db }) => findUsedZapRequests(db, ['a', 'b'])],
  [
    'counts the recent zap receipts of recipients',
    ({ db }) => countReceiptsSince(db, pubkeys.slice(0, 100), 1, 1_000),
  ],
  ['deletes old zap requests', ({ db }) => pruneZapRequests(db, 1_000)],
  ['lists relays with open deliveries', ({ db }) => listWaitingRelays(db, '', 1_000)],
  ['finds due relays', ({ db }) => findDueRelays(db, QUOTE_COUNT, [RELAY_URL])],
  [
    'claims due deliveries',
    ({ db }) =>
      claimDueReceipts(db, RELAY_URL, { nowMs: QUOTE_COUNT, claimedUntilMs: 1, limit: 10 }),
  ],
  ['gives up overdue deliveries', ({ db }) => giveUpOverdueDeliveries(db, 1, 10)],
  ['counts pending deliveries', ({ db }) => countPendingDeliveries(db)],
  ['counts watched quotes', ({ db }) => countWatchedQuotes(db, 'a process')],
  ['reads the size of the database', ({ db }) => readDatabaseSize(db)],
  ['traces a payment hash', ({ db }) => findTracedQuotesByPaymentHash(db, 'hash', 5)],
  ['traces a quote id', ({ db }) => findTracedQuotesByQuoteId(db, 'id-1', 5)],
  ["traces a recipient's payments", ({ db }) => searchPayments(db, pubkey, null, 10)],
  ["searches a recipient's payments", ({ db }) => searchPayments(db, pubkey, FILTER, 10)],
  ["searches a recipient's unpaid quotes", ({ db }) => searchUnpaidQuotes(db, pubkey, FILTER, 10)],
  ["traces a recipient's open quotes", ({ db }) => searchUnpaidQuotes(db, pubkey, null, 10)],
];

describe.skipIf(isPostgres)('SQLite', () => {
  let database: Database;

  beforeAll(async () => {
    const { dataDir, remove } = await createDataDir();
    database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
    await insertUsersAndQuotes(database);
    // Collects the statistics that the query planner uses.
    await transaction(database.db, resetSequencesAndAnalyze);
    return async () => {
      await database.close();
      await remove();
    };
  });

  it.each(CALLS)('%s without reading a whole table', async (_name, call) => {
    const planSteps = await explainStatements(database, call);
    expect(planSteps.length).toBeGreaterThan(0);
    expect(planSteps.filter((step) => FULL_SCAN.test(step))).toEqual([]);
  });

  it('finds changes since a time with an index on the time, not by reading all events of the recipients', async () => {
    const planSteps = await explainStatements(database, ({ db }) =>
      listUpdatesSince(db, 1, { pubkeys: [pubkey], nowMs: 1 }),
    );
    expect(planSteps).toContainEqual(expect.stringContaining('quote_events_by_time (at>?)'));
  });

  it('finds listed quotes by their ids, not by reading all payments of the recipient', async () => {
    const planSteps = await explainStatements(database, ({ db }) =>
      findListedQuotes(db, pubkey, quoteIds, 1),
    );
    expect(planSteps).toContainEqual(expect.stringMatching(/^SEARCH quotes .*\(quote_id=\?\)/));
  });

  it('adds up payments by reading a range of the list', async () => {
    const planSteps = await explainStatements(database, ({ db }) =>
      summarisePaidQuotes(db, pubkey, 2_000),
    );
    expect(planSteps).toContainEqual(
      expect.stringContaining('quotes_listed_page (pubkey=? AND paid_seq>? AND paid_seq<?)'),
    );
  });

  it.each<[string, StoreCall]>([
    ['quotes', ({ tx }) => applyQuoteChanges(tx, changes)],
    ['payment counters', ({ tx }) => savePaymentCounters(tx, counters)],
  ])(
    'changes 2,000 %s in half a second, which quadratic time would exceed',
    async (_name, call) => {
      const startedAtMs = performance.now();
      await transaction(database.db, (tx) => call(new TransactionStore(tx)));
      expect(performance.now() - startedAtMs).toBeLessThan(500);
    },
  );
});

async function insertUsersAndQuotes({ db }: Database): Promise<void> {
  const numbers = (count: number) => sql`
    with recursive numbers (n) as (
      select 1 union all select n + 1 from numbers where n < ${count}
    )`;
  await sql`insert into users (pubkey) select value from json_each(${JSON.stringify(pubkeys)})`.execute(
    db,
  );
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                        created_at, expires_at, watch_until)
    ${numbers(QUOTE_COUNT)}
    select ${MINT_URL}, 'id-' || n, ${pubkey}, 'lnbc1', 21, 'UNPAID', 0, n, n, n from numbers
  `.execute(db);
  await sql`
    insert into quote_events (quote, at, kind, detail)
    ${numbers(QUOTE_COUNT)} select n, n, 'state', '{}' from numbers
  `.execute(db);
}

/** Runs a call, rolls it back, and returns the plan steps of all its statements. */
async function explainStatements({ db }: Database, call: StoreCall): Promise<string[]> {
  const nodes: RootOperationNode[] = [];
  const rollback = new Error('rollback');
  await db
    .transaction()
    .execute(async (tx) => {
      const recordingTx = tx.withPlugin({
        transformQuery: ({ node }) => {
          nodes.push(node);
          return node;
        },
        transformResult: async ({ result }) => result,
      });
      await call(new TransactionStore(recordingTx));
      throw rollback;
    })
    .catch((error: unknown) => expect(error).toBe(rollback));
  const steps: string[] = [];
  for (const node of nodes) {
    const { sql: text, parameters } = db.getExecutor().compileQuery(node, createQueryId());
    const query = CompiledQuery.raw(`explain query plan ${text}`, [...parameters]);
    const { rows } = await db.executeQuery<{ detail: string }>(query);
    steps.push(...rows.map(({ detail }) => detail));
  }
  return steps;
}
