import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { HISTORY_DAYS } from '../../src/domain/history.ts';
import type { QuoteEvent } from '../../src/domain/quote-event.ts';
import type { DeliveryState } from '../../src/domain/receipt-delivery.ts';
import type { Database } from '../../src/store/database.ts';
import type { QuoteEventStore } from '../../src/store/quote-event-store.ts';
import { Store } from '../../src/store/store.ts';
import { PruneHistory } from '../../src/usecases/prune-history.ts';
import { NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** Old history and receipts are pruned, whatever the clock of the process says. */

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

it('history is pruned in small batches', async () => {
  await addMany(1_234, old.atMs);
  const limits: number[] = [];
  const events: Pick<QuoteEventStore, 'prune'> = {
    prune: (beforeMs, limit) => {
      limits.push(limit);
      return store.events.prune(beforeMs, limit);
    },
  };
  await pruneAt(Date.now(), { ...store, events });
  expect(Math.max(...limits)).toBeLessThanOrEqual(500);
  expect(limits).toHaveLength(3);
  expect(await store.events.list(id)).toEqual([young]);
});

it('pruning ends after the current batch if the service stops', async () => {
  await addMany(1_234, old.atMs);
  const stopping = new AbortController();
  const events: Pick<QuoteEventStore, 'prune'> = {
    prune: (beforeMs, limit) => {
      stopping.abort();
      return store.events.prune(beforeMs, limit);
    },
  };
  await pruneAt(Date.now(), { ...store, events }, stopping.signal);
  expect(await store.events.list(id)).toHaveLength(1_234 + 2 - 500);
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

  it('are given up after two days, and deleted with their deliveries after thirty', async () => {
    await addReceipts(1_234, 'old', LONG_AGO_MS, 'open');
    await addReceipts(1, 'young', RECENTLY_MS, 'open');
    await pruneAt(Date.now());
    expect(await receipts()).toEqual(['young1']);
    const { state, receipt } = await database.db
      .selectFrom('zap_receipt_deliveries')
      .select(['state', 'receipt'])
      .executeTakeFirstOrThrow();
    expect({ state, receipt }).toEqual({ state: 'given_up', receipt: 'young1' });
    expect(await store.traces.findByQuoteId('of receipt young1', 1)).toHaveLength(1);
  });

  it('leave relays behind, which are deleted as late', async () => {
    await addRelay('wss://old.example', LONG_AGO_MS);
    await addRelay('wss://young.example', RECENTLY_MS);
    await pruneAt(Date.now());
    expect(await relays()).toEqual(['wss://young.example']);
  });

  /** Each of a quote of its own, and for one relay. */
  async function addReceipts(
    count: number,
    name: string,
    createdAtMs: number,
    state: DeliveryState,
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
      select id, 'wss://relay.example', ${state}, ${state === 'open' ? createdAt : null}::timestamptz,
             ${createdAt}
      from numbers
    `.execute(database.db);
  }

  async function addRelay(url: string, lastTryAtMs: number): Promise<void> {
    await database.db
      .insertInto('relays')
      .values({ url, last_try_at: new Date(lastTryAtMs) })
      .execute();
  }

  async function receipts(): Promise<string[]> {
    const rows = await database.db.selectFrom('zap_receipts').select('id').orderBy('id').execute();
    return rows.map((row) => row.id);
  }

  async function relays(): Promise<string[]> {
    const rows = await database.db.selectFrom('relays').select('url').orderBy('url').execute();
    return rows.map(({ url }) => url);
  }
});

function pruneAt(
  nowMs: number,
  stores: ConstructorParameters<typeof PruneHistory>[0] = store,
  signal = new AbortController().signal,
): Promise<void> {
  return new PruneHistory(stores, () => nowMs).run(signal);
}

/** Adds more events than a quote may have, as if they were of many quotes. */
async function addMany(count: number, atMs: number): Promise<void> {
  await sql`
    insert into quote_events (quote, pubkey, at, kind, detail)
    select ${id}, 'somebody', ${new Date(atMs)}, 'told', '{"sockets": 1}'
    from generate_series(1, ${count}::int)
  `.execute(database.db);
}
