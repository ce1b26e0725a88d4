import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { HISTORY_DAYS } from '../../src/domain/history.ts';
import type { QuoteEvent } from '../../src/domain/quote-event.ts';
import type { DeliveryState } from '../../src/domain/receipt-delivery.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { ZapReceiptStore } from '../../src/store/zap-receipt-store.ts';
import { PruneHistory } from '../../src/usecases/prune-history.ts';
import { costOf } from '../helpers/query-cost.ts';
import { NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** What is forgotten, also where the clocks of process and database differ, on either database. */

const DAY_MS = 24 * 60 * 60_000;

let database: Database;
let store: Store;
let id: number;
let old: QuoteEvent;
let young: QuoteEvent;

useDatabase((opened) => {
  database = opened;
  store = new Store(opened.db);
});

beforeEach(async () => {
  const quote = unpaidQuote(randomBytes(32).toString('hex'));
  id = (await store.quotes.insert(quote)) ?? 0;
  const oldestKeptMs = Date.now() - HISTORY_DAYS * DAY_MS;
  old = { atMs: oldestKeptMs - DAY_MS, kind: 'told', sockets: 1 };
  young = { atMs: oldestKeptMs + DAY_MS, kind: 'told', sockets: 1 };
  await store.events.add([old, young].map((event) => ({ id, pubkey: quote.pubkey, ...event })));
});

it('a clock of the process that jumped ahead does not take the history with it', async () => {
  await pruneAt(Date.now() + 365 * DAY_MS);
  expect(await store.events.list(id)).toEqual([young]);
});

it('a clock of the process that stayed behind keeps more, and nothing is lost', async () => {
  await pruneAt(Date.now() - 365 * DAY_MS);
  expect(await store.events.list(id)).toEqual([old, young]);
});

describe('zap receipts', () => {
  const LONG_AGO_MS = Date.now() - (HISTORY_DAYS + 1) * DAY_MS;
  const RECENTLY_MS = LONG_AGO_MS + 2 * DAY_MS;

  beforeEach(async () => {
    await database.db.deleteFrom('zap_receipts').execute();
    await database.db.deleteFrom('relays').execute();
  });

  it('are forgotten with their deliveries when they are too old, and not before', async () => {
    await addReceipts(1, 'old', LONG_AGO_MS, 'accepted');
    await addReceipts(1, 'young', RECENTLY_MS, 'accepted');
    await pruneAt(Date.now());
    expect(await receipts()).toEqual(['young1']);
    expect(await deliveries()).toEqual(['young1']);
    expect(await store.traces.findByQuoteId('of receipt young1', 1)).toHaveLength(1);
  });

  it('stay while a relay has to get them', async () => {
    await addReceipts(1, 'open', LONG_AGO_MS, 'open');
    await addReceipts(1, 'refused', LONG_AGO_MS, 'refused');
    await pruneAt(Date.now());
    expect(await receipts()).toEqual(['open1']);
  });

  it('do not go with a clock of the process that jumped ahead', async () => {
    await addReceipts(1, 'young', RECENTLY_MS, 'accepted');
    await addRelay('wss://young.example', RECENTLY_MS);
    await pruneAt(Date.now() + 365 * DAY_MS);
    expect(await receipts()).toEqual(['young1']);
    expect(await relays()).toEqual(['wss://young.example']);
  });

  it('that are many are forgotten lot by lot, to the last', async () => {
    await addReceipts(1_234, 'old', LONG_AGO_MS, 'given_up');
    await pruneAt(Date.now());
    expect(await receipts()).toEqual([]);
    expect(await deliveries()).toEqual([]);
  });

  it('cost little to forget, however many there are that stay', async () => {
    await addReceipts(1, 'old', LONG_AGO_MS, 'accepted');
    await addReceipts(2_000, 'young', RECENTLY_MS, 'accepted');
    await sql`analyze`.execute(database.db);
    const cost = await costOf(database.db, (db) =>
      new ZapReceiptStore(db).prune(Date.now() - HISTORY_DAYS * DAY_MS, 500),
    );
    expect(cost.rows).toBeLessThanOrEqual(5);
  });

  it('cost as little though the database has learnt that nothing is ever open', async () => {
    await addReceipts(40, 'ended', LONG_AGO_MS, 'accepted');
    await sql`analyze zap_receipt_deliveries`.execute(database.db);
    await addReceipts(2_000, 'open', RECENTLY_MS, 'open');
    await sql`analyze zap_receipts`.execute(database.db);
    const cost = await costOf(database.db, (db) =>
      new ZapReceiptStore(db).prune(Date.now() - HISTORY_DAYS * DAY_MS, 10),
    );
    // Looked at, locked and deleted, with the one delivery of each.
    expect(cost.rows).toBeLessThanOrEqual(5 * 10);
    expect(await receipts()).toHaveLength(2_020);
  });

  it('leave relays that are found at little cost though the database has learnt that nothing is ever open', async () => {
    for (let relay = 0; relay < 40; relay += 1) {
      await addRelay(`wss://due-${relay}.example`, LONG_AGO_MS);
      await addRelay(`wss://old-${relay}.example`, LONG_AGO_MS);
    }
    await addReceipts(2_000, 'ended', RECENTLY_MS, 'accepted');
    await sql`analyze zap_receipt_deliveries, relays`.execute(database.db);
    await addReceipts(2_000, 'open', RECENTLY_MS, 'open');
    await sql`
      update zap_receipt_deliveries
      set relay = 'wss://due-' || abs(hashtext(receipt)) % 40 || '.example'
      where state = 'open'
    `.execute(database.db);
    const cost = await costOf(database.db, (db) =>
      new ZapReceiptStore(db).pruneRelays(Date.now() - HISTORY_DAYS * DAY_MS, 500),
    );
    // Each relay, and what is due there or at the next one; then those that go.
    expect(cost.rows).toBeLessThanOrEqual(80 + 80 + 3 * 40);
    expect(await relays()).toHaveLength(40);
  });

  it('leave relays behind that are forgotten as late, but for those that have to get one', async () => {
    await addReceipts(1, 'open', RECENTLY_MS, 'open', 'wss://due.example');
    for (const url of ['wss://due.example', 'wss://old.example', 'wss://owned.example']) {
      await addRelay(url, LONG_AGO_MS);
    }
    await addRelay('wss://young.example', RECENTLY_MS);
    await addRelay('wss://untried.example', null);
    await store.leases.keepAlive('p1');
    await database.db
      .updateTable('relays')
      .set({ owner: 'p1' })
      .where('url', '=', 'wss://owned.example')
      .execute();
    await pruneAt(Date.now());
    expect(await relays()).toEqual([
      'wss://due.example',
      'wss://owned.example',
      'wss://young.example',
    ]);
  });

  /** Each of a quote of its own, and for one relay. */
  async function addReceipts(
    count: number,
    name: string,
    createdAtMs: number,
    state: DeliveryState,
    relay = 'wss://relay.example',
  ): Promise<void> {
    const createdAt = new Date(createdAtMs);
    await sql`
      with numbers as (
        select ${name}::text || number as id from generate_series(1, ${count}::int) as number
      ), paid as (
        insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                            created_at, expires_at)
        select ${NOWHERE_MINT}, 'of receipt ' || id, 'nobody', '', 21, 'UNPAID', false,
               ${createdAt}, ${createdAt}
        from numbers
        on conflict (mint_url, quote_id) do update set request = ''
        returning id, quote_id
      ), added as (
        insert into zap_receipts (id, quote, event, created_at)
        select numbers.id, paid.id, '{}', ${createdAt}
        from numbers join paid on quote_id = 'of receipt ' || numbers.id
      )
      insert into zap_receipt_deliveries (receipt, relay, state, next_try_at, give_up_at)
      select id, ${relay}, ${state}, ${state === 'open' ? createdAt : null}::timestamptz,
             ${createdAt}
      from numbers
    `.execute(database.db);
  }

  async function addRelay(url: string, lastTryAtMs: number | null): Promise<void> {
    await database.db
      .insertInto('relays')
      .values({ url, last_try_at: lastTryAtMs === null ? null : new Date(lastTryAtMs) })
      .execute();
  }

  async function receipts(): Promise<string[]> {
    const rows = await database.db.selectFrom('zap_receipts').select('id').orderBy('id').execute();
    return rows.map((row) => row.id);
  }

  async function deliveries(): Promise<string[]> {
    const rows = await database.db.selectFrom('zap_receipt_deliveries').select('receipt').execute();
    return rows.map(({ receipt }) => receipt);
  }

  async function relays(): Promise<string[]> {
    const rows = await database.db.selectFrom('relays').select('url').orderBy('url').execute();
    return rows.map(({ url }) => url);
  }
});

function pruneAt(nowMs: number): Promise<void> {
  return new PruneHistory(store, () => nowMs).run(new AbortController().signal);
}
