import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ObservedState, QuoteObservation } from '../../src/mints/quote-responses.ts';
import type {
  ObservationRecorder,
  ObservationSource,
  RecordedQuote,
  SourcedObservation,
} from '../../src/quotes/observation-recorder.ts';
import {
  decodeQuoteUpdates,
  QUOTE_UPDATES_CHANNEL,
  type QuoteUpdate,
} from '../../src/quotes/quote-notifications.ts';
import type { NewQuote } from '../../src/quotes/quote-store.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { recordNotifications } from '../helpers/notification-barrier.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  DEFAULT_CREATED_AT_MS,
  randomPubkey,
  UNREACHABLE_MINT_URL,
} from '../helpers/quotes.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Recording what mints report. */

const HOUR_MS = 3_600_000;

const database = useDatabase();
let store: Store;
let clock: TestClock;
let recordObservations: ObservationRecorder;
let pubkey: string;

beforeAll(() => {
  store = new Store(database.db);
});

beforeEach(() => {
  clock = new TestClock(DEFAULT_CREATED_AT_MS + 1_000);
  recordObservations = createObservationRecorder(store, { clock: clock.now });
  pubkey = randomPubkey();
});

describe('a payment', () => {
  it('is recorded and announced once if the socket and polls report it concurrently', async () => {
    const quote = await keep();
    const ear = await openEar();
    const sources = Array.from({ length: 24 }, (_, index) => (index % 2 ? 'socket' : 'poll'));
    await Promise.all(sources.map((source) => record([observe(quote, 'PAID')], source)));
    expect(await list()).toEqual([
      { quoteId: quote.quoteId, state: 'PAID', paidAtMs: clock.nowMs },
    ]);
    expect(await paidCount()).toBe(1);
    expect(await ear()).toEqual([{ pubkey, quoteId: quote.quoteId }]);
  });

  it('stays paid if the mint later reports it as unpaid', async () => {
    const quote = await keep();
    await record([observe(quote, 'PAID')]);
    const ear = await openEar();
    clock.advance(30 * 24 * HOUR_MS);
    await record([observe(quote, 'UNPAID')], 'socket');
    await record([observe(quote, 'UNPAID')], 'poll');
    expect(await list()).toMatchObject([{ quoteId: quote.quoteId, state: 'PAID' }]);
    await record([observe(quote, 'ISSUED')], 'poll');
    for (const state of ['UNPAID', 'PAID', 'INFLIGHT'] as const) {
      await record([observe(quote, state)], 'poll');
    }
    expect(await list()).toMatchObject([{ quoteId: quote.quoteId, state: 'ISSUED' }]);
    expect(await ear()).toEqual([{ pubkey, quoteId: quote.quoteId }]);
  });

  it('keeps its place in the list while its mint signs, and announces each change', async () => {
    const quote = await keep();
    const ear = await openEar();
    const paidAtMs = clock.nowMs;
    for (const state of ['INFLIGHT', 'PAID', 'INFLIGHT', 'ISSUED'] as const) {
      await record([observe(quote, state)]);
      expect(await list()).toEqual([{ quoteId: quote.quoteId, state, paidAtMs }]);
      expect(await ear()).toEqual([{ pubkey, quoteId: quote.quoteId }]);
      clock.advance(2_000);
    }
    expect(await paidCount()).toBe(1);
  });

  it('is rejected if the mint reports another amount or invoice', async () => {
    const quote = await keep({ amountSat: 21 });
    await record([{ ...observe(quote, 'PAID'), amountSat: 22 }]);
    await record([{ ...observe(quote, 'PAID'), request: `${quote.request}x` }]);
    expect(await list()).toEqual([]);
    await record([
      { ...observe(quote, 'PAID'), amountSat: 21, request: quote.request.toUpperCase() },
    ]);
    expect(await list()).toMatchObject([{ quoteId: quote.quoteId }]);
  });

  it('is ignored if another mint reports it, or the quote is unknown', async () => {
    const quote = await keep();
    const other = [{ ...observe(quote, 'PAID'), source: 'poll' as const }];
    expect(await recordObservations.record('https://other.example', other)).toEqual([]);
    expect(await record([{ quoteId: 'unknown', state: 'PAID' }])).toEqual([]);
    expect(await list()).toEqual([]);
    expect(await store.users.findByPubkey(pubkey)).toBeNull();
  });

  it('changes state if it was imported without its invoice', async () => {
    const quote = await keep({ request: '' });
    const reported = {
      quoteId: quote.quoteId,
      amountSat: quote.amountSat,
      request: 'lnbc210n1invoice',
    };
    await record([{ ...reported, state: 'INFLIGHT' }]);
    await record([{ ...reported, state: 'PAID' }]);
    expect(await list()).toMatchObject([{ quoteId: quote.quoteId, state: 'PAID' }]);
  });
});

describe('an unpaid quote', () => {
  it('expires with the response that ends its watch, without an update', async () => {
    const quote = await keep();
    const ear = await openEar();
    expect(await record([observe(quote, 'UNPAID')])).toMatchObject([
      { state: 'UNPAID', hasStateChanged: false, isWatched: true },
    ]);
    expect(await record([{ ...observe(quote, 'UNPAID'), shouldEndWatch: true }])).toEqual([
      {
        quoteId: quote.quoteId,
        state: 'EXPIRED',
        paidAtMs: null,
        isWatched: false,
        hasStateChanged: true,
        source: 'poll',
      },
    ]);
    expect(await ear()).toEqual([]);
    expect(await list()).toEqual([]);
    expect(await watchedIds()).not.toContain(quote.quoteId);
  });

  it('can still be paid after it expired, and is watched again', async () => {
    const quote = await keep();
    await record([{ ...observe(quote, 'UNPAID'), shouldEndWatch: true }]);
    const ear = await openEar();
    expect(await record([observe(quote, 'PAID')], 'socket')).toMatchObject([{ isWatched: true }]);
    expect(await list()).toEqual([
      { quoteId: quote.quoteId, state: 'PAID', paidAtMs: clock.nowMs },
    ]);
    expect(await ear()).toEqual([{ pubkey, quoteId: quote.quoteId }]);
    expect(await watchedIds()).toContain(quote.quoteId);
  });
});

describe('a batch', () => {
  it('assigns each recipient a dense sequence, and announces every quote once', async () => {
    const other = randomPubkey();
    const quotes = await keepMany([pubkey, other, pubkey, pubkey, other]);
    const ear = await openEar();
    await record(quotes.map((quote) => observe(quote, 'PAID')));
    const later = await keepMany([pubkey]);
    clock.advance(60_000);
    await record(later.map((quote) => observe(quote, 'PAID')));
    expect(await placesOf(pubkey)).toEqual([1, 2, 3, 4]);
    expect(await placesOf(other)).toEqual([1, 2]);
    expect(await paidCount()).toBe(4);
    const told = (await ear()).map((update) => update.quoteId);
    expect(told.toSorted()).toEqual([...quotes, ...later].map((quote) => quote.quoteId).toSorted());
  });

  it('runs beside batches of the same quotes in any order without deadlock or double counting', async () => {
    const recipients = [pubkey, randomPubkey(), randomPubkey(), randomPubkey()];
    const quotes = await keepMany(Array.from({ length: 10 }, () => recipients).flat());
    const ear = await openEar();
    const rotated = (by: number) => [...quotes.slice(by), ...quotes.slice(0, by)];
    const batches = [rotated(0), rotated(0).reverse(), rotated(13), rotated(29).reverse()];
    const answers = [...batches, ...batches].map((batch, index) =>
      record(
        batch.map((quote) => observe(quote, index < batches.length ? 'PAID' : 'ISSUED')),
        index % 2 === 0 ? 'poll' : 'socket',
      ),
    );
    await Promise.all(answers);
    for (const recipient of recipients) {
      expect(await placesOf(recipient)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
    // If ISSUED is recorded first, PAID changes nothing.
    const told = await ear();
    expect(told.length).toBeGreaterThanOrEqual(quotes.length);
    expect(told.length).toBeLessThanOrEqual(2 * quotes.length);
    expect((await list()).map((quote) => quote.state)).toEqual(Array(10).fill('ISSUED'));
  });

  it('records all others if the database rejects one, and logs that one until an operator repairs it', async () => {
    const capture = new LogCapture('error');
    recordObservations = createObservationRecorder(store, { clock: clock.now, log: capture.log });
    const [before, spoilt] = (await keepMany([pubkey, pubkey])) as [NewQuote, NewQuote];
    await record([observe(before, 'PAID')]);
    await database.db.deleteFrom('users').where('pubkey', '=', pubkey).execute();

    const other = randomPubkey();
    const [fine] = (await keepMany([other])) as [NewQuote];
    expect(await record([observe(fine, 'PAID'), observe(spoilt, 'PAID')])).toMatchObject([
      { quoteId: fine.quoteId, state: 'PAID', hasStateChanged: true },
      { quoteId: spoilt.quoteId, state: 'UNPAID', isWatched: true, hasStateChanged: false },
    ]);
    expect(await placesOf(other)).toEqual([1]);
    const [held] = await store.watchedQuotes.findByQuoteIds(UNREACHABLE_MINT_URL, [spoilt.quoteId]);
    expect(capture.lines).toHaveLength(1);
    expect(JSON.parse(capture.lines[0] ?? '')).toMatchObject({
      event: 'quote_rows_inconsistent',
      mintUrl: UNREACHABLE_MINT_URL,
      quotes: [held?.id],
      err: { message: expect.stringMatching(/quotes_listed_page|quotes\.paid_seq/) },
    });
    for (const secret of [spoilt.quoteId, spoilt.request, spoilt.verifyToken]) {
      expect(capture.lines[0]).not.toContain(secret);
    }

    await database.db.insertInto('users').values({ pubkey, paid_count: 1 }).execute();
    await record([observe(spoilt, 'PAID')]);
    expect(await placesOf(pubkey)).toEqual([1, 2]);
  });
});

function record(
  observations: readonly Omit<SourcedObservation, 'source'>[],
  source: ObservationSource = 'poll',
): Promise<RecordedQuote[]> {
  return recordObservations.record(
    UNREACHABLE_MINT_URL,
    observations.map((observation) => ({ ...observation, source })),
  );
}

function observe(quote: NewQuote, state: ObservedState): QuoteObservation {
  return { quoteId: quote.quoteId, state };
}

async function keep(given: Partial<NewQuote> = {}): Promise<NewQuote> {
  const quote = buildUnpaidQuote(pubkey, given);
  await store.quotes.insert([quote]);
  return quote;
}

/** One quote for each, in their order. */
async function keepMany(recipients: readonly string[]): Promise<NewQuote[]> {
  const quotes = recipients.map((recipient) => buildUnpaidQuote(recipient));
  for (const quote of quotes) {
    await store.quotes.insert([quote]);
  }
  return quotes;
}

/** The newest payments of a recipient, the newest first. */
async function list(of: string = pubkey) {
  const { quotes } = await store.quotes.listPaid(of, { sinceSeconds: null, limit: 50, offset: 0 });
  return quotes.map(({ quoteId, state, paidAtMs }) => ({ quoteId, state, paidAtMs }));
}

async function placesOf(recipient: string): Promise<(number | null)[]> {
  const rows = await database.db
    .selectFrom('quotes')
    .select('paid_seq')
    .where('pubkey', '=', recipient)
    .orderBy('paid_seq')
    .execute();
  return rows.map((row) => row.paid_seq);
}

async function paidCount(): Promise<number | undefined> {
  return (await store.users.lockPaymentCounters([pubkey]))[0]?.paidCount;
}

async function watchedIds(): Promise<string[]> {
  return (await store.watchedQuotes.listWatchedByMint(UNREACHABLE_MINT_URL, 0, 10_000)).map(
    ({ quoteId }) => quoteId,
  );
}

/** @returns a function that returns the updates since its last call */
async function openEar(): Promise<() => Promise<Omit<QuoteUpdate, 'id'>[]>> {
  const received = await recordNotifications(database, QUOTE_UPDATES_CHANNEL);
  return async () => (await received()).flatMap(decodeQuoteUpdates).map(withoutRow);
}

function withoutRow({ pubkey, quoteId }: QuoteUpdate): Omit<QuoteUpdate, 'id'> {
  return { pubkey, quoteId };
}
