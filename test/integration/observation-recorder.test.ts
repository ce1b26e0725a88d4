import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Db } from '../../src/database/transaction.ts';
import type { ObservedState, QuoteObservation } from '../../src/mints/quote-responses.ts';
import type {
  ObservationSource,
  RecordedQuote,
  SourcedObservation,
} from '../../src/quotes/decide-observation.ts';
import { countOpenInvoices } from '../../src/quotes/open-invoice-store.ts';
import { listPaidQuotes } from '../../src/quotes/paid-list-store.ts';
import {
  decodeQuoteUpdates,
  QUOTE_UPDATES_CHANNEL,
} from '../../src/quotes/process-notifications.ts';
import { insertQuotes, type NewQuote } from '../../src/quotes/quote-store.ts';
import { findUserByPubkey } from '../../src/recipients/user-store.ts';
import { recordNotifications } from '../helpers/database/database-notifications.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  DEFAULT_QUOTE_CREATED_AT_MS,
  randomPubkey,
  UNREACHABLE_MINT_URL,
} from '../helpers/recipients/quote-fixtures.ts';
import { TestClock } from '../helpers/test-clock.ts';

const HOUR_MS = 3_600_000;

const database = useTestDatabase();
let db: Db;
let clock: TestClock;
let recorder: ReturnType<typeof createObservationRecorder>;
let pubkey: string;

beforeAll(() => {
  db = database.db;
});

beforeEach(() => {
  clock = new TestClock(DEFAULT_QUOTE_CREATED_AT_MS + 1_000);
  recorder = createObservationRecorder(db, { clock: clock.now });
  pubkey = randomPubkey();
});

describe('a payment', () => {
  it.each([
    [3_000, 3_000],
    [HOUR_MS, 5_000],
  ])('to a quote that a clock dated %i ms ahead is dated %i ms ahead', async (aheadMs, datedMs) => {
    clock.nowMs = DEFAULT_QUOTE_CREATED_AT_MS - aheadMs;
    const quote = await insertQuote();
    await record([observe(quote, 'PAID')]);
    const [payment] = await listPayments();
    expect((payment?.paidAtMs ?? 0) - clock.nowMs).toBe(datedMs);
  });

  it('is not recorded if the mint reports a different amount or invoice', async () => {
    const quote = await insertQuote({ amountSat: 21 });
    await record([{ ...observe(quote, 'PAID'), amountSat: 22 }]);
    await record([{ ...observe(quote, 'PAID'), request: `${quote.request}x` }]);
    expect(await listPayments()).toEqual([]);
    await record([
      { ...observe(quote, 'PAID'), amountSat: 21, request: quote.request.toUpperCase() },
    ]);
    expect(await listPayments()).toMatchObject([{ quoteId: quote.quoteId }]);
  });

  it('is not recorded if another mint reports it, or if its quote is unknown', async () => {
    const quote = await insertQuote();
    const observations = [{ ...observe(quote, 'PAID'), source: 'poll' as const }];
    expect(await recorder.record('https://other.example', observations)).toEqual([]);
    expect(await record([{ quoteId: 'unknown', state: 'PAID' }])).toEqual([]);
    expect(await listPayments()).toEqual([]);
    expect(await findUserByPubkey(db, pubkey)).toBeNull();
  });

  it('counts as an open invoice while it is INFLIGHT, because a mint can report that for nothing', async () => {
    const addressHashes = 'a'.repeat(16);
    const quote = await insertQuote({ addressHashes });
    const countOpen = () =>
      countOpenInvoices(
        db,
        { pubkey, addressHashes: [addressHashes] },
        { perRecipient: 10, perPair: 10, perAddress: [10] },
        { min: HOUR_MS, max: HOUR_MS },
        clock.nowMs,
      );
    await record([observe(quote, 'INFLIGHT')]);
    expect(await countOpen()).toEqual({ perRecipient: 1, perPair: [1], perAddress: [1] });
    await record([observe(quote, 'PAID')]);
    expect(await countOpen()).toEqual({ perRecipient: 0, perPair: [0], perAddress: [0] });
  });

  it('is recorded with any reported invoice if its quote was imported without one', async () => {
    const quote = await insertQuote({ request: '' });
    await record([{ ...observe(quote, 'PAID'), request: 'lnbc210n1invoice' }]);
    expect(await listPayments()).toMatchObject([{ quoteId: quote.quoteId, state: 'PAID' }]);
  });
});

describe('a batch of payments', () => {
  it('is recorded without deadlock or double counting beside batches with the same quotes', async () => {
    const recipients = [pubkey, randomPubkey(), randomPubkey(), randomPubkey()];
    const quotes = await insertUnpaidQuotes(Array.from({ length: 10 }, () => recipients).flat());
    const takeUpdates = await recordUpdates();
    const rotateQuotes = (by: number) => [...quotes.slice(by), ...quotes.slice(0, by)];
    const batches = [0, 13, 0, 29].map(rotateQuotes);
    batches[2]?.reverse();
    batches[3]?.reverse();
    const recordings = [...batches, ...batches].map((batch, index) =>
      record(
        batch.map((quote) => observe(quote, index < batches.length ? 'PAID' : 'ISSUED')),
        index % 2 === 0 ? 'poll' : 'socket',
      ),
    );
    await Promise.all(recordings);
    for (const recipient of recipients) {
      expect(await sequenceNumbersOf(recipient)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
    // A quote that is first recorded as ISSUED has one update, other quotes have two.
    const updates = await takeUpdates();
    expect(updates.length).toBeGreaterThanOrEqual(quotes.length);
    expect(updates.length).toBeLessThanOrEqual(2 * quotes.length);
    expect((await listPayments()).map((quote) => quote.state)).toEqual(Array(10).fill('ISSUED'));
  });

  it('records none of a batch if a quote has inconsistent rows', async () => {
    await record([observe(await insertQuote(), 'PAID')]);
    const inconsistent = await insertQuote();
    // Without its user, the next payment would get the sequence number of the first one again.
    await database.db.deleteFrom('users').where('pubkey', '=', pubkey).execute();
    const other = randomPubkey();
    const [consistent] = (await insertUnpaidQuotes([other])) as [NewQuote];
    const batch = [observe(consistent, 'PAID'), observe(inconsistent, 'PAID')];
    await expect(record(batch)).rejects.toThrow(/quotes_listed_page|quotes\.paid_seq/);
    expect(await sequenceNumbersOf(other)).toEqual([null]);
  });
});

function record(
  observations: readonly Omit<SourcedObservation, 'source'>[],
  source: ObservationSource = 'poll',
): Promise<RecordedQuote[]> {
  return recorder.record(
    UNREACHABLE_MINT_URL,
    observations.map((observation) => ({ ...observation, source })),
  );
}

function observe(quote: NewQuote, state: ObservedState): QuoteObservation {
  return { quoteId: quote.quoteId, state };
}

async function insertQuote(overrides: Partial<NewQuote> = {}): Promise<NewQuote> {
  const quote = buildUnpaidQuote(pubkey, overrides);
  await insertQuotes(db, [quote]);
  return quote;
}

async function insertUnpaidQuotes(recipients: readonly string[]): Promise<NewQuote[]> {
  const quotes = recipients.map((recipient) => buildUnpaidQuote(recipient));
  await insertQuotes(db, quotes);
  return quotes;
}

async function listPayments() {
  const page = { sinceSeconds: null, limit: 50, offset: 0 };
  const { quotes } = await listPaidQuotes(db, pubkey, page, clock.nowMs);
  return quotes.map(({ quoteId, state, paidAtMs }) => ({ quoteId, state, paidAtMs }));
}

async function sequenceNumbersOf(recipient: string): Promise<(number | null)[]> {
  const rows = await database.db
    .selectFrom('quotes')
    .select('paid_seq')
    .where('pubkey', '=', recipient)
    .orderBy('paid_seq')
    .execute();
  return rows.map((row) => row.paid_seq);
}

async function recordUpdates() {
  const takePayloads = await recordNotifications(database, QUOTE_UPDATES_CHANNEL);
  return async () => {
    const updates = (await takePayloads()).flatMap(decodeQuoteUpdates);
    return updates.map(({ pubkey, quoteId }) => ({ pubkey, quoteId }));
  };
}
