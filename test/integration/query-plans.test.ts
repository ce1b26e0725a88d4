import { CompiledQuery, createQueryId, type RootOperationNode, sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Database, openDatabase } from '../../src/database/database.ts';
import { deleteOldRows, TABLES_WITH_RETENTION } from '../../src/database/retention-store.ts';
import { type Tx, transaction } from '../../src/database/transaction.ts';
import {
  countPendingDeliveries,
  countWatchedQuotes,
  readSizeAndUserCount,
} from '../../src/metrics/database-counts-store.ts';
import { findChannel, listChannels } from '../../src/notifications/channel-store.ts';
import {
  addNotifications,
  claimDueChannels,
  findEarliestDueNotification,
  listDueNotifications,
  listNotificationsOfQuote,
  lockChannels,
  recordMessage,
  releaseChannel,
  saveNotificationChanges,
} from '../../src/notifications/outbox-store.ts';
import { resetSequencesAndAnalyze } from '../../src/operator/archive/archive-store.ts';
import { readStats } from '../../src/operator/report-store.ts';
import { findTracedQuotes, searchQuotes } from '../../src/operator/trace/trace-store.ts';
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
} from '../../src/quotes/quote-event-store.ts';
import { findQuoteByVerifyToken } from '../../src/quotes/quote-store.ts';
import type { QuoteChange } from '../../src/quotes/watched-quote-store.ts';
import {
  applyQuoteChanges,
  listWatchedAfter,
  listWatchedByMint,
  listWatchedMints,
  lockQuotesByQuoteId,
} from '../../src/quotes/watched-quote-store.ts';
import {
  findUserByName,
  findUserByPubkey,
  lockPaymentCounters,
  savePaymentCounters,
} from '../../src/recipients/user-store.ts';
import { findUsername } from '../../src/usernames/username-store.ts';
import {
  claimDueReceipts,
  countReceiptsSince,
  findDueRelays,
  findReceiptOfQuote,
  findUsedZapRequests,
  giveUpOverdueDeliveries,
  listDeliveryRelays,
  pruneZapRequests,
} from '../../src/zaps/zap-receipt-store.ts';
import { createDataDir, isPostgres } from '../helpers/database/test-database.ts';
import { randomPubkey } from '../helpers/recipients/quote-fixtures.ts';
import { buildSentMessage } from '../helpers/recipients/sent-message.ts';

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
  /^SCAN (quotes|users|usernames|mints|quote_events|earlier|zap_receipts|zap_receipt_deliveries|delivery|notification_channels|notifications|username_purchases|audit_events)\b(?! .* zap_receipt_deliveries_due)/;

const SENT_MESSAGE = buildSentMessage({ isDelivered: false, isDisabled: true });

type StoreCall = (tx: Tx) => Promise<unknown>;

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
  ['finds the owner of a name', (tx) => findUserByName(tx, 'alice')],
  ['finds out whether a name is available', (tx) => findUsername(tx, 'alice')],
  ['finds a recipient by key', (tx) => findUserByPubkey(tx, pubkey)],
  [
    'counts open invoices',
    (tx) =>
      countOpenInvoices(
        tx,
        { pubkey, addressHashes: ['a1b2', 'a1'] },
        { perRecipient: 100, perPair: 20, perAddress: [30, 60] },
        { min: 1, max: 1_000 },
        QUOTE_COUNT,
      ),
  ],
  [
    'lists payments',
    (tx) => listPaidQuotes(tx, pubkey, { sinceSeconds: 1, limit: 50, offset: 0 }, 1),
  ],
  ['finds listed quotes by id', (tx) => findListedQuotes(tx, pubkey, quoteIds, 1)],
  ['adds up payments', (tx) => summarisePaidQuotes(tx, pubkey, 2_000, 1)],
  ['locks the channels of recipients', (tx) => lockChannels(tx, [pubkey])],
  [
    'adds notifications',
    (tx) =>
      addNotifications(tx, [
        { channel: 'channel', quoteRowId: 1, eventType: 'received', dueAtMs: 1, giveUpAtMs: 2 },
      ]),
  ],
  ['claims channels', (tx) => claimDueChannels(tx, 1, { limit: 10, busyGroups: ['shop.example'] })],
  ['lists due notifications', (tx) => listDueNotifications(tx, 'channel', 1)],
  [
    'saves changes of notifications',
    (tx) =>
      saveNotificationChanges(tx, 'channel', [
        { id: 1, status: 'open', dueAtMs: 1, messageId: 'message' },
      ]),
  ],
  ['records a message', (tx) => recordMessage(tx, 'channel', SENT_MESSAGE)],
  ['releases a channel', (tx) => releaseChannel(tx, 'channel', 1)],
  ['finds a channel', (tx) => findChannel(tx, pubkey, 'channel')],
  ['finds the earliest due notification', (tx) => findEarliestDueNotification(tx)],
  ['lists the channels of a recipient', (tx) => listChannels(tx, pubkey)],
  ['lists the notifications of a payment', (tx) => listNotificationsOfQuote(tx, 1)],
  ['finds an invoice by its verify token', (tx) => findQuoteByVerifyToken(tx, 'token')],
  ['lists watched mints', (tx) => listWatchedMints(tx)],
  ['lists new quotes', (tx) => listWatchedAfter(tx, QUOTE_COUNT - 10, 1_000)],
  ['lists the watched quotes of a mint', (tx) => listWatchedByMint(tx, MINT_URL, 100, 1_000)],
  ['locks watched quotes by id', (tx) => lockQuotesByQuoteId(tx, MINT_URL, quoteIds)],
  ['applies changes to quotes', (tx) => applyQuoteChanges(tx, changes)],
  ['locks payment counters', (tx) => lockPaymentCounters(tx, pubkeys.slice(0, 100))],
  ['saves payment counters', (tx) => savePaymentCounters(tx, counters)],
  [
    'adds events',
    (tx) => addQuoteEvents(tx, [{ quoteRowId: 1, atMs: 1, kind: 'update_sent', socketCount: 1 }]),
  ],
  ['lists the events of a quote', (tx) => listQuoteEvents(tx, 1)],
  [
    'finds changes since a time',
    (tx) => listUpdatesSince(tx, QUOTE_COUNT, { pubkeys: [pubkey], nowMs: 1 }),
  ],
  ['finds the receipt of a quote', (tx) => findReceiptOfQuote(tx, 1)],
  ['finds used zap requests', (tx) => findUsedZapRequests(tx, ['a', 'b'])],
  [
    'counts the recent zap receipts of recipients',
    (tx) => countReceiptsSince(tx, pubkeys.slice(0, 100), 1, 1_000),
  ],
  ['deletes old zap requests', (tx) => pruneZapRequests(tx, 1_000)],
  ['lists relays with open deliveries', (tx) => listDeliveryRelays(tx, '', 1_000)],
  ['finds due relays', (tx) => findDueRelays(tx, QUOTE_COUNT, [RELAY_URL])],
  ['claims due deliveries', (tx) => claimDueReceipts(tx, RELAY_URL, QUOTE_COUNT, 10)],
  ['gives up overdue deliveries', (tx) => giveUpOverdueDeliveries(tx, 1, 10)],
  ['counts pending deliveries', (tx) => countPendingDeliveries(tx)],
  ['counts watched quotes', (tx) => countWatchedQuotes(tx, 'a process', 1)],
  ['reads the size of the database and counts its users', (tx) => readSizeAndUserCount(tx)],
  ['traces a payment hash', (tx) => findTracedQuotes(tx, 'payment_hash', 'hash', 5)],
  ['traces a quote id', (tx) => findTracedQuotes(tx, 'quote_id', 'id-1', 5)],
  ["traces a recipient's payments", (tx) => searchQuotes(tx, pubkey, 'paid', null, 10)],
  ["searches a recipient's payments", (tx) => searchQuotes(tx, pubkey, 'paid', FILTER, 10)],
  ["searches a recipient's unpaid quotes", (tx) => searchQuotes(tx, pubkey, 'unpaid', FILTER, 10)],
  ["traces a recipient's open quotes", (tx) => searchQuotes(tx, pubkey, 'unpaid', null, 10)],
  ...TABLES_WITH_RETENTION.map((table): [string, StoreCall] => [
    `deletes old rows of ${table}`,
    (tx) => deleteOldRows(tx, table, 1_000),
  ]),
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

  it('counts the payments of a time without reading all quotes', async () => {
    const planSteps = await explainStatements(database, (tx) => readStats(tx, 'day', 1));
    expect(planSteps.filter((step) => step.includes('SCAN quotes'))).toEqual([]);
    expect(planSteps).toContainEqual(expect.stringContaining('(pubkey=? AND paid_at>?)'));
  });

  it('counts watched quotes in an index alone, because the reader blocks the event loop', async () => {
    const planSteps = await explainStatements(database, (tx) => countWatchedQuotes(tx, 'a', 1));
    expect(planSteps).toContainEqual(expect.stringMatching(/quotes USING COVERING INDEX/));
  });

  it('finds changes since a time with an index on the time, not by reading all events of the recipients', async () => {
    const planSteps = await explainStatements(database, (tx) =>
      listUpdatesSince(tx, 1, { pubkeys: [pubkey], nowMs: 1 }),
    );
    expect(planSteps).toContainEqual(expect.stringContaining('quote_events_by_time (at>?)'));
  });

  it.each<[string, StoreCall]>([
    ['quotes', (tx) => applyQuoteChanges(tx, changes)],
    ['payment counters', (tx) => savePaymentCounters(tx, counters)],
  ])(
    'changes 2,000 %s with half a second of processor time, which quadratic time would exceed',
    async (_name, call) => {
      const before = process.cpuUsage();
      await transaction(database.db, (tx) => call(tx));
      const { user, system } = process.cpuUsage(before);
      expect((user + system) / 1_000).toBeLessThan(500);
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
  await sql`
    insert into notification_channels (id, pubkey, kind, site, sealed_target, min_amount_sat, created_at)
    values ('channel', ${pubkey}, 'webhook', 'shop.example', 'sealed', 1, 1)
  `.execute(db);
}

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
      await call(recordingTx);
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
