import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { HISTORY_DAYS } from '../../src/domain/history.ts';
import type { QuoteEvent } from '../../src/domain/quote-event.ts';
import type { Database } from '../../src/store/database.ts';
import { QuoteEventStore } from '../../src/store/quote-event-store.ts';
import { Store } from '../../src/store/store.ts';
import { PruneHistory } from '../../src/usecases/prune-history.ts';
import { FIRST_PAID_AT_MS, keepPayments } from '../helpers/paid-quotes.ts';
import { costOf } from '../helpers/query-cost.ts';
import { CREATED_AT_MS, NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** What `nutpost trace` reads, and how its history ends, on either database. */

const DAY_MS = 24 * 60 * 60_000;

let database: Database;
let store: Store;
let pubkey: string;

useDatabase((opened) => {
  database = opened;
  store = new Store(opened.db);
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  pubkey = randomBytes(32).toString('hex');
});

describe('a quote', () => {
  it('is found by its payment hash, with all that is known of it', async () => {
    const quote = unpaidQuote(pubkey, { locked: true, amountSat: 2_100_000_000_000_000 });
    await store.quotes.insert(quote);
    await store.quotes.insert(unpaidQuote(pubkey));
    expect(await store.traces.findByPaymentHash(quote.paymentHash, 5)).toEqual([
      {
        id: expect.any(Number),
        mintUrl: NOWHERE_MINT,
        quoteId: quote.quoteId,
        pubkey,
        paymentHash: quote.paymentHash,
        amountSat: 2_100_000_000_000_000,
        state: 'UNPAID',
        locked: true,
        createdAtMs: CREATED_AT_MS,
        expiresAtMs: CREATED_AT_MS + 3_600_000,
        paidAtMs: null,
        watchUntilMs: quote.watchUntilMs,
        isZap: false,
        hasComment: false,
      },
    ]);
    expect(await store.traces.findByPaymentHash('00'.repeat(32), 5)).toEqual([]);
  });

  it('is found by its id, whichever mints gave that', async () => {
    const quote = unpaidQuote(pubkey, { mintUrl: 'https://b.example' });
    const elsewhere = unpaidQuote(pubkey, {
      mintUrl: 'https://c.example',
      quoteId: quote.quoteId,
    });
    await store.quotes.insert(unpaidQuote(pubkey, { mintUrl: 'https://a.example' }));
    await store.quotes.insert(quote);
    await store.quotes.insert(elsewhere);
    const found = await store.traces.findByQuoteId(quote.quoteId, 5);
    expect(found.map(({ mintUrl }) => mintUrl)).toEqual(['https://c.example', 'https://b.example']);
    expect(await store.traces.findByQuoteId(quote.quoteId, 1)).toHaveLength(1);
    expect(await store.traces.findByQuoteId('unheard-of', 5)).toEqual([]);
  });
});

describe('a recipient', () => {
  it('has the newest payments first, and their number', async () => {
    const oldestFirst = await keepPayments(database, pubkey, 7);
    await keepPayments(database, randomBytes(32).toString('hex'), 3);
    const { quotes, total } = await store.traces.listPayments(pubkey, 3);
    expect(quotes.map(({ quoteId }) => quoteId)).toEqual(oldestFirst.toReversed().slice(0, 3));
    expect(quotes[0]).toMatchObject({ paidAtMs: FIRST_PAID_AT_MS + 6_000, paymentHash: null });
    expect(total).toBe(7);
    expect((await store.traces.listPayments(pubkey, 10)).quotes).toHaveLength(7);
  });

  it('has the newest open quotes first, and none that is paid or given up', async () => {
    const [oldest, paid, newest, expired] = Array.from({ length: 4 }, () => unpaidQuote(pubkey));
    for (const quote of [oldest, paid, newest, expired]) {
      await store.quotes.insert(quote as NonNullable<typeof quote>);
    }
    await change(paid?.quoteId, {
      state: 'PAID',
      paid_seq: 1,
      paid_at: new Date(CREATED_AT_MS),
    });
    await change(expired?.quoteId, { state: 'EXPIRED', watch_until: null });
    const ids = async (limit: number) =>
      (await store.traces.listOpen(pubkey, limit)).map(({ quoteId }) => quoteId);
    expect(await ids(10)).toEqual([newest?.quoteId, oldest?.quoteId]);
    expect(await ids(2)).toEqual([newest?.quoteId]);
  });

  it('that was never seen has nothing', async () => {
    expect(await store.traces.listPayments(pubkey, 10)).toEqual({ quotes: [], total: 0 });
    expect(await store.traces.listOpen(pubkey, 10)).toEqual([]);
  });

  async function change(quoteId: string | undefined, values: Record<string, unknown>) {
    await database.db
      .updateTable('quotes')
      .set(values)
      .where('quote_id', '=', quoteId ?? '')
      .execute();
  }
});

describe('the process that watches a mint', () => {
  it('is known, and whether it is alive', async () => {
    expect(await store.traces.ownerOf(NOWHERE_MINT)).toBeNull();
    await store.leases.keepAlive('p1');
    await store.leases.claim('p1', [NOWHERE_MINT]);
    expect(await store.traces.ownerOf(NOWHERE_MINT)).toEqual({ processId: 'p1', isAlive: true });
    await sql`update watch_processes set alive_until = clock_timestamp() - interval '1 s'`.execute(
      database.db,
    );
    expect(await store.traces.ownerOf(NOWHERE_MINT)).toEqual({ processId: 'p1', isAlive: false });
    await store.leases.leave('p1');
    expect(await store.traces.ownerOf(NOWHERE_MINT)).toBeNull();
  });
});

describe('history', () => {
  const NOW_MS = CREATED_AT_MS + 100 * DAY_MS;
  const OLDEST_KEPT_MS = NOW_MS - HISTORY_DAYS * DAY_MS;
  let id: number;

  beforeEach(async () => {
    const quote = unpaidQuote(pubkey);
    id = (await store.quotes.insert(quote)) ?? 0;
  });

  it('is forgotten when it is too old, and not before', async () => {
    await add(told(OLDEST_KEPT_MS - 1), told(OLDEST_KEPT_MS), told(NOW_MS));
    await prune();
    expect(await store.events.list(id)).toEqual([told(OLDEST_KEPT_MS), told(NOW_MS)]);
    expect(await store.traces.listOpen(pubkey, 1)).toHaveLength(1);
  });

  it('is forgotten in small lots, until nothing is left of it', async () => {
    await add(told(NOW_MS));
    await addMany(1_234, OLDEST_KEPT_MS - 1);
    const lots: number[] = [];
    await prune({
      prune: async (beforeMs, limit) => {
        const isMore = await store.events.prune(beforeMs, limit);
        lots.push(limit);
        return isMore;
      },
    });
    expect(Math.max(...lots)).toBeLessThanOrEqual(500);
    expect(lots).toHaveLength(3);
    expect(await store.events.list(id)).toEqual([told(NOW_MS)]);
  });

  it('is left for the next time where the service is to stop', async () => {
    await addMany(1_234, OLDEST_KEPT_MS - 1);
    const stopping = new AbortController();
    await prune(
      {
        prune: (beforeMs, limit) => {
          stopping.abort();
          return store.events.prune(beforeMs, limit);
        },
      },
      stopping.signal,
    );
    expect(await store.events.list(id)).toHaveLength(734);
  });

  it('costs little to forget, however much there is that stays', async () => {
    await add(told(OLDEST_KEPT_MS - 1));
    await addMany(3_000, NOW_MS);
    const cost = await costOf(database.db, (db) =>
      new QuoteEventStore(db).prune(OLDEST_KEPT_MS, 500),
    );
    expect(cost.rows).toBeLessThanOrEqual(2);
  });

  function prune(
    events: Pick<QuoteEventStore, 'prune'> = store.events,
    signal = new AbortController().signal,
  ): Promise<void> {
    const { purchases, zapReceipts } = store;
    return new PruneHistory({ events, purchases, zapReceipts }, () => NOW_MS).run(signal);
  }

  function told(atMs: number): QuoteEvent {
    return { atMs, kind: 'told', sockets: 1 };
  }

  async function add(...events: QuoteEvent[]): Promise<void> {
    await store.events.add(events.map((event) => ({ id, pubkey, ...event })));
  }

  /** More than a quote may have, as if they were of many. */
  async function addMany(count: number, atMs: number): Promise<void> {
    await sql`
      insert into quote_events (quote, pubkey, at, kind, detail)
      select ${id}, ${pubkey}, ${new Date(atMs)}, 'told', '{"sockets": 1}'
      from generate_series(1, ${count}::int)
    `.execute(database.db);
  }
});
