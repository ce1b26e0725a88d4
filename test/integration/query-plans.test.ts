import { CompiledQuery, createQueryId, type RootOperationNode, sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Database, openDatabase } from '../../src/database/database.ts';
import type { QuoteChange } from '../../src/quotes/watched-quote-store.ts';
import { Store } from '../../src/store.ts';
import { createDataDir, isPostgres } from '../helpers/database.ts';
import { randomPubkey } from '../helpers/quotes.ts';

/** How SQLite runs frequent queries. On PostgreSQL, test/postgres/query-cost.test.ts counts what they read. */

const MINT = 'https://mint.example';
const USERS = 2_000;
const QUOTES = 10_000;
const RELAY = 'wss://relay.example';

/** A plan step that reads a whole growing table. The index of due deliveries contains only pending ones. */
const FULL_SCAN =
  /^SCAN (quotes|users|quote_events|earlier|zap_receipts|zap_receipt_deliveries|delivery)\b(?! .* zap_receipt_deliveries_due)/;

type Call = (store: Store) => Promise<unknown>;

const pubkeys = Array.from({ length: USERS }, randomPubkey);
const [pubkey = ''] = pubkeys;
const quoteIds = Array.from({ length: 100 }, (_, index) => `id-${index + 1}`);
const counters = pubkeys.map((each) => ({ pubkey: each, paidCount: 1, lastPaidAtMs: 1 }));
const changes = Array.from({ length: 2_000 }, (_, index): QuoteChange => {
  const state = 'UNPAID';
  return { id: index + 1, state, watchUntilMs: null, payment: null };
});

const CALLS: [what: string, call: Call][] = [
  ['finds the owner of a name', ({ users }) => users.findByName('alice')],
  ['finds a recipient by key', ({ users }) => users.findByPubkey(pubkey)],
  [
    'counts open invoices',
    ({ quotes }) =>
      quotes.countOpenInvoices(
        { pubkey, addressGroupHash: 'group' },
        { perRecipient: 100, perAddressGroup: 30, perPair: 10 },
        { min: 1, max: 1_000 },
        QUOTES,
      ),
  ],
  [
    'lists payments',
    ({ quotes }) => quotes.listPaid(pubkey, { sinceSeconds: 1, limit: 50, offset: 0 }),
  ],
  ['finds an invoice by its verify token', ({ quotes }) => quotes.findByVerifyToken('token')],
  ['lists watched mints', ({ watchedQuotes: watch }) => watch.listWatchedMints()],
  ['lists new quotes', ({ watchedQuotes: watch }) => watch.listWatchedAfter(QUOTES - 10, 1_000)],
  [
    'lists the watched quotes of a mint',
    ({ watchedQuotes: watch }) => watch.listWatchedByMint(MINT, 100, 1_000),
  ],
  ['finds held quotes', ({ watchedQuotes: watch }) => watch.lockByQuoteIds(MINT, quoteIds)],
  ['changes quotes', ({ watchedQuotes: watch }) => watch.applyChanges(changes)],
  ['locks payment counters', ({ users }) => users.lockPaymentCounters(pubkeys.slice(0, 100))],
  ['saves payment counters', ({ users }) => users.savePaymentCounters(counters)],
  [
    'adds events',
    ({ quoteEvents: events }) =>
      events.add([{ quoteRowId: 1, atMs: 1, kind: 'update_sent', socketCount: 1 }]),
  ],
  ['lists the events of a quote', ({ quoteEvents: events }) => events.listByQuote(1)],
  [
    'finds changes since a time',
    ({ quoteEvents: events }) => events.listChangedSince(QUOTES, [pubkey]),
  ],
  ['deletes old events', ({ quoteEvents: events }) => events.prune(1_000)],
  ['finds zap requests', ({ zapReceipts }) => zapReceipts.findZapRequests([1, 2])],
  ['finds the receipt of a quote', ({ zapReceipts }) => zapReceipts.findByQuote(1)],
  ['deletes old receipts', ({ zapReceipts }) => zapReceipts.pruneReceipts(1_000)],
  ['finds due relays', ({ receiptDeliveries: deliveries }) => deliveries.findDueRelays(QUOTES)],
  [
    'claims receipts',
    ({ receiptDeliveries: deliveries }) =>
      deliveries.claimDue(RELAY, { nowMs: QUOTES, claimedUntilMs: 1, limit: 10 }),
  ],
  ['gives receipts up', ({ receiptDeliveries: deliveries }) => deliveries.giveUpOverdue(1, 10)],
  ['counts the outbox', ({ backlog }) => backlog.countPendingDeliveries()],
  ['counts watched quotes', ({ backlog }) => backlog.countWatchedQuotes('a process')],
  ['traces a payment hash', ({ traces }) => traces.findByPaymentHash('hash', 5)],
  ['traces a quote id', ({ traces }) => traces.findByQuoteId('id-1', 5)],
  ["traces a recipient's payments", ({ traces }) => traces.listPayments(pubkey, 10)],
  ["traces a recipient's open quotes", ({ traces }) => traces.listOpenQuotes(pubkey, 10)],
];

describe.skipIf(isPostgres)('SQLite', () => {
  let database: Database;

  beforeAll(async () => {
    const { dataDir, remove } = await createDataDir();
    database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
    await fill(database);
    // As at the end of an import.
    await new Store(database.db).transaction(({ archive }) => archive.resetSequencesAndAnalyze());
    return async () => {
      await database.close();
      await remove();
    };
  });

  it.each(CALLS)('%s by index', async (_what, call) => {
    const plans = await plansOf(database, call);
    expect(plans.length).toBeGreaterThan(0);
    expect(plans.filter((step) => FULL_SCAN.test(step))).toEqual([]);
  });

  it('finds changes since a time by that time, not by all payments of the recipients', async () => {
    const plans = await plansOf(database, ({ quoteEvents: events }) =>
      events.listChangedSince(1, [pubkey]),
    );
    expect(plans).toContainEqual(expect.stringContaining('quote_events_by_time (at>?)'));
  });

  it.each<[string, Call]>([
    ['quotes', ({ watchedQuotes: watch }) => watch.applyChanges(changes)],
    ['payment counters', ({ users }) => users.savePaymentCounters(counters)],
  ])('changes 2,000 %s in a time that does not grow with their square', async (_what, call) => {
    const startedAtMs = performance.now();
    await call(new Store(database.db));
    expect(performance.now() - startedAtMs).toBeLessThan(500);
  });
});

/** No recipient has a name. */
async function fill({ db }: Database): Promise<void> {
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
    ${numbers(QUOTES)}
    select ${MINT}, 'id-' || n, ${pubkey}, 'lnbc1', 21, 'UNPAID', 0, n, n, n from numbers
  `.execute(db);
  await sql`
    insert into quote_events (quote, at, kind, detail)
    ${numbers(QUOTES)} select n, n, 'state', '{}' from numbers
  `.execute(db);
}

/** Returns the steps of the plans of all statements of a call, whose changes it rolls back. */
async function plansOf({ db }: Database, call: Call): Promise<string[]> {
  const nodes: RootOperationNode[] = [];
  const undone = new Error('undone');
  await db
    .transaction()
    .execute(async (tx) => {
      const recording = tx.withPlugin({
        transformQuery: ({ node }) => {
          nodes.push(node);
          return node;
        },
        transformResult: async ({ result }) => result,
      });
      await call(new Store(recording));
      throw undone;
    })
    .catch((error: unknown) => expect(error).toBe(undone));
  const steps: string[] = [];
  for (const node of nodes) {
    const { sql: text, parameters } = db.getExecutor().compileQuery(node, createQueryId());
    const query = CompiledQuery.raw(`explain query plan ${text}`, [...parameters]);
    const { rows } = await db.executeQuery<{ detail: string }>(query);
    steps.push(...rows.map(({ detail }) => detail));
  }
  return steps;
}
