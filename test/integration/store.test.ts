import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Db, transaction } from '../../src/database/transaction.ts';
import { addQuoteEvents, listQuoteEvents } from '../../src/quotes/quote-event-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { applyQuoteChanges, type QuoteChange } from '../../src/quotes/watched-quote-store.ts';
import {
  claimMints,
  renewProcessLease,
  summariseWatchProcesses,
} from '../../src/watcher/lease-store.ts';
import { giveUpOverdueDeliveries, recordDeliveries } from '../../src/zaps/zap-receipt-store.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  DEFAULT_QUOTE_CREATED_AT_MS,
  randomPubkey,
} from '../helpers/recipients/quote-fixtures.ts';
import {
  countDeliveriesByState,
  insertZapReceipts,
  readDeliveriesToRelay,
} from '../helpers/relays/zap-receipt-deliveries.ts';

const SECOND_MS = 1_000;
const DAY_MS = 24 * 60 * 60 * SECOND_MS;

const database = useTestDatabase();
let db: Db;
let pubkey: string;

beforeAll(() => {
  db = database.db;
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('relays').execute();
  await database.db.deleteFrom('watch_processes').execute();
  pubkey = randomPubkey();
});

describe('a change of a quote', () => {
  const payment = { paidAtMs: DEFAULT_QUOTE_CREATED_AT_MS, paidSeq: 1 };
  const untilMs = DEFAULT_QUOTE_CREATED_AT_MS;
  const texts = { comment: 'thanks', zapRequest: '{}' };

  it.each<[string, Omit<QuoteChange, 'id'>, object]>([
    [
      'keeps the address hashes of an INFLIGHT quote',
      { state: 'INFLIGHT', watchUntilMs: untilMs, payment },
      { addressHashes: 'a1b2', ...texts },
    ],
    [
      'removes the address hashes of an INFLIGHT quote that is no longer watched',
      { state: 'INFLIGHT', watchUntilMs: null, payment },
      { addressHashes: null, ...texts },
    ],
    [
      'removes the address hashes of a paid quote',
      { state: 'PAID', watchUntilMs: untilMs, payment },
      { addressHashes: null, ...texts },
    ],
    [
      'removes the address hashes and the payer’s texts of an expired quote',
      { state: 'EXPIRED', watchUntilMs: null, payment: null },
      { addressHashes: null, comment: null, zapRequest: null },
    ],
  ])('%s', async (_case, change, expected) => {
    const quote = buildUnpaidQuote(pubkey, { addressHashes: 'a1b2', ...texts });
    const [id] = (await insertQuotes(db, [quote])) as [number];
    await transaction(db, (tx) => applyQuoteChanges(tx, [{ id, ...change }]));
    const rows = await db
      .selectFrom('quotes')
      .select(['address_hashes as addressHashes', 'comment', 'zap_request as zapRequest'])
      .execute();
    expect(rows).toEqual([expected]);
  });
});

describe('the history of a quote', () => {
  it('contains the first 20 events of each kind, in order', async () => {
    const quotes = [buildUnpaidQuote(pubkey), buildUnpaidQuote(pubkey)];
    const [quoteRowId, otherRowId] = (await insertQuotes(db, quotes)) as [number, number];
    const stateChange = {
      atMs: 1,
      kind: 'state',
      from: 'UNPAID',
      to: 'PAID',
      source: 'poll',
    } as const;
    const updates = Array.from({ length: 30 }, (_, i) => {
      return { atMs: 2 + i, kind: 'update_sent', socketCount: 1 + i } as const;
    });
    for (const event of [stateChange, ...updates]) {
      await addQuoteEvents(db, [{ quoteRowId, ...event }]);
    }
    await addQuoteEvents(db, [{ quoteRowId: otherRowId, ...stateChange }]);
    expect(await listQuoteEvents(db, quoteRowId)).toEqual([stateChange, ...updates.slice(0, 20)]);
    expect(await listQuoteEvents(db, otherRowId)).toEqual([stateChange]);
  });
});

describe('the lease of a mint', () => {
  const MINT_URLS = ['https://a.example', 'https://b.example'];

  it('can be claimed if the lease of its process ends implausibly late, because the clock was set back', async () => {
    await renewProcessLease(db, 'dead');
    await claimMints(db, 'dead', MINT_URLS);
    await setLeaseEnd('dead', 3_600_000);
    await renewProcessLease(db, 'live');
    expect(await claimMints(db, 'live', MINT_URLS)).toEqual(MINT_URLS);
    expect(await summariseWatchProcesses(db)).toMatchObject({ count: 1 });
  });

  it.each([
    ['expired, because the database was unavailable for longer than a lease', -60_000],
    ['ends implausibly late, because the clock of a new primary is behind', 3_600_000],
  ])('stays with its process if the lease of every process %s', async (_case, fromNowMs) => {
    for (const processId of ['first', 'second']) {
      await renewProcessLease(db, processId);
    }
    await claimMints(db, 'second', MINT_URLS);
    await setLeaseEnd('first', fromNowMs);
    await setLeaseEnd('second', fromNowMs);
    expect(await renewProcessLease(db, 'first')).toBe(true);
    expect(await renewProcessLease(db, 'second')).toBe(true);
    expect(await claimMints(db, 'first', MINT_URLS)).toEqual([]);
    await setLeaseEnd('second', fromNowMs);
    await renewProcessLease(db, 'first');
    expect(await claimMints(db, 'first', MINT_URLS)).toEqual(MINT_URLS);
  });

  async function setLeaseEnd(processId: string, fromNowMs: number): Promise<void> {
    await database.db
      .updateTable('watch_processes')
      .set({ lease_expires_at: Date.now() + fromNowMs })
      .where('id', '=', processId)
      .execute();
  }
});

describe('the store of zap receipt deliveries', () => {
  const RELAY_URL = 'wss://one.example';
  const OTHER_RELAY_URL = 'wss://two.example';
  const CREATED_AT_MS = 1_750_000_000_000;

  const insertReceipts = (count: number, relays: readonly string[], atMs = CREATED_AT_MS) =>
    insertZapReceipts(database, { events: count, relays, createdAtMs: atMs });

  it('gives up open deliveries two days after their creation, and stores the last error of the relay', async () => {
    await insertReceipts(3, [RELAY_URL, OTHER_RELAY_URL]);
    await insertReceipts(1, [RELAY_URL], CREATED_AT_MS + DAY_MS);
    const status = { failures: 1, backoffUntilMs: CREATED_AT_MS, lastError: 'timed out' };
    await recordDeliveries(db, RELAY_URL, [], status, CREATED_AT_MS);
    const deadlineMs = CREATED_AT_MS + 2 * DAY_MS;
    await giveUpOverdueDeliveries(db, deadlineMs - 1, 100);
    expect(await countDeliveriesByState(database, RELAY_URL)).toEqual({ open: 4 });
    // Returns whether more deliveries may be overdue, because the batch was full.
    expect(await giveUpOverdueDeliveries(db, deadlineMs, 4)).toBe(true);
    expect(await giveUpOverdueDeliveries(db, deadlineMs, 4)).toBe(false);
    expect(await countDeliveriesByState(database, RELAY_URL)).toEqual({ given_up: 3, open: 1 });
    expect(await countDeliveriesByState(database, OTHER_RELAY_URL)).toEqual({ given_up: 3 });
    const deliveries = [...(await readDeliveriesToRelay(database, RELAY_URL)).values()];
    expect(deliveries.filter(({ last_result }) => last_result === 'timed out')).toHaveLength(3);
  });
});
