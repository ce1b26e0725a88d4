import { sql } from 'kysely';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Db, transaction } from '../../src/database/transaction.ts';
import { HISTORY_RETENTION_DAYS } from '../../src/limits.ts';
import { runMaintenance } from '../../src/maintenance.ts';
import type { QuoteEvent } from '../../src/quotes/quote-event-store.ts';
import { addQuoteEvents, listQuoteEvents } from '../../src/quotes/quote-event-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { recordAuditEvent } from '../../src/recipients/audit-store.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  insertPaidQuotes,
  randomPubkey,
} from '../helpers/recipients/quote-fixtures.ts';
import { insertZapReceipts } from '../helpers/relays/zap-receipt-deliveries.ts';

const DAY_MS = 24 * 60 * 60_000;

const database = useTestDatabase();
let db: Db;
let quoteRowId: number;
let expiredEvent: QuoteEvent;
let retainedEvent: QuoteEvent;

beforeAll(() => {
  db = database.db;
});

beforeEach(async () => {
  const quote = buildUnpaidQuote(randomPubkey());
  quoteRowId = (await insertQuotes(db, [quote]))[0] ?? 0;
  const retentionStartMs = Date.now() - HISTORY_RETENTION_DAYS * DAY_MS;
  expiredEvent = { atMs: retentionStartMs - DAY_MS, kind: 'update_sent', socketCount: 1 };
  retainedEvent = { atMs: retentionStartMs + DAY_MS, kind: 'update_sent', socketCount: 1 };
  await addQuoteEvents(
    db,
    [expiredEvent, retainedEvent].map((event) => ({ quoteRowId, ...event })),
  );
});

it('deletes expired events of quotes and keeps recent ones', async () => {
  await insertQuoteEvents(1_234, expiredEvent.atMs);
  await prune();
  expect(await listQuoteEvents(db, quoteRowId)).toEqual([retainedEvent]);
});

describe('the pruning of zap receipts and relays', () => {
  const EXPIRED_AT_MS = Date.now() - (HISTORY_RETENTION_DAYS + 1) * DAY_MS;
  const RETAINED_AT_MS = Date.now() - (HISTORY_RETENTION_DAYS - 1) * DAY_MS;

  beforeEach(async () => {
    await db.deleteFrom('zap_receipts').execute();
    await db.deleteFrom('relays').execute();
  });

  it('gives up old deliveries, and deletes expired receipts but not their quotes', async () => {
    const relays = ['wss://relay.example'];
    await insertZapReceipts(database, { events: 1_234, relays, createdAtMs: EXPIRED_AT_MS });
    const [retained] = await insertZapReceipts(database, {
      events: 1,
      relays,
      createdAtMs: RETAINED_AT_MS,
    });
    await prune();
    expect(await db.selectFrom('zap_receipts').select('id').execute()).toEqual([
      { id: retained?.id },
    ]);
    expect(
      await db.selectFrom('zap_receipt_deliveries').select(['receipt', 'state']).execute(),
    ).toEqual([{ receipt: retained?.id, state: 'given_up' }]);
    const { count } = db.fn;
    const quotes = await db.selectFrom('quotes').select(count('id').as('remaining')).execute();
    expect(Number(quotes[0]?.remaining)).toBeGreaterThanOrEqual(1_235);
  });

  it('deletes a relay that was last used before the retention period', async () => {
    for (const [url, atMs] of [
      ['wss://old.example', EXPIRED_AT_MS],
      ['wss://recent.example', RETAINED_AT_MS],
    ] as const) {
      await db.insertInto('relays').values({ url, last_attempt_at: atMs }).execute();
    }
    await prune();
    const relays = await db.selectFrom('relays').select('url').execute();
    expect(relays).toEqual([{ url: 'wss://recent.example' }]);
  });
});

it('deletes a mint without watched quotes whose info was last fetched more than 7 days ago', async () => {
  for (const [url, ageDays] of [
    ['https://unused.example', 7.1],
    ['https://recent.example', 6.9],
    ['https://watched.example', 100],
    ['https://formerly-watched.example', 100],
  ] as const) {
    const fetchedAtMs = Date.now() - ageDays * DAY_MS;
    await db.insertInto('mints').values({ url, info: '{}', fetched_at: fetchedAtMs }).execute();
  }
  const ids = await insertQuotes(
    db,
    ['https://watched.example', 'https://formerly-watched.example'].map((mintUrl) =>
      buildUnpaidQuote(randomPubkey(), { mintUrl }),
    ),
  );
  await db
    .updateTable('quotes')
    .set({ watch_until: null })
    .where('id', '=', ids[1] ?? 0)
    .execute();
  await prune();
  const mints = await db.selectFrom('mints').select('url').orderBy('url').execute();
  expect(mints).toEqual([{ url: 'https://recent.example' }, { url: 'https://watched.example' }]);
});

it('deletes audit events that are older than a year', async () => {
  const recentMs = Date.now() - 364 * DAY_MS;
  await transaction(db, async (tx) => {
    for (const atMs of [...Array.from({ length: 600 }, () => recentMs - 2 * DAY_MS), recentMs]) {
      const change = { action: 'name reserve', pubkey: null, name: 'alice', before: null };
      await recordAuditEvent(tx, {
        atMs,
        systemUser: 'root',
        ...change,
        after: { status: 'reserved' },
      });
    }
  });
  await prune();
  expect(await db.selectFrom('audit_events').select('at').execute()).toEqual([{ at: recentMs }]);
});

it('keeps the zap requests of quotes that were paid recently or are not issued, and all comments', async () => {
  const pubkey = randomPubkey();
  const [expiredAtMs, retainedAtMs] = [expiredEvent.atMs, retainedEvent.atMs];
  await insertPaidQuotes(database, pubkey, [
    ...Array.from({ length: 1_234 }, () => ({ paidAtMs: expiredAtMs, state: 'ISSUED' as const })),
    { paidAtMs: expiredAtMs, state: 'PAID' },
    { paidAtMs: retainedAtMs, state: 'ISSUED' },
  ]);
  await db
    .updateTable('quotes')
    .set({ zap_request: '{}', comment: 'thank you' })
    .where('pubkey', '=', pubkey)
    .execute();
  await prune();
  const quotes = await db
    .selectFrom('quotes')
    .select(['state', 'paid_at', 'zap_request', 'comment'])
    .where('pubkey', '=', pubkey)
    .execute();
  expect(quotes.filter((quote) => quote.zap_request !== null)).toMatchObject([
    { state: 'PAID', paid_at: expiredAtMs },
    { state: 'ISSUED', paid_at: retainedAtMs },
  ]);
  expect(quotes.every((quote) => quote.comment === 'thank you')).toBe(true);
});

function prune(): Promise<void> {
  return runMaintenance(db, Date.now(), new AbortController().signal);
}

/** Inserts rows directly, because the store limits the events of a quote. */
async function insertQuoteEvents(count: number, atMs: number): Promise<void> {
  await sql`
    with recursive series (n) as (select 1 union all select n + 1 from series where n < ${count})
    insert into quote_events (quote, at, kind, detail)
    select cast(${quoteRowId} as bigint), cast(${atMs} as bigint), 'update_sent', '{"socketCount": 1}' from series
  `.execute(database.db);
}
