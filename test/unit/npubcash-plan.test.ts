import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { encodeInvoice } from '../../src/demo/test-mint/bolt11-encoder.ts';
import type { QuoteState } from '../../src/domain/quote.ts';
import type { NpubcashQuote } from '../../src/store/npubcash-source.ts';
import {
  keyOfQuote,
  planQuotes,
  type QuotesPlan,
} from '../../src/usecases/plan-npubcash-quotes.ts';
import {
  type BroughtQuote,
  KeyReader,
  readNpubcashQuote,
} from '../../src/usecases/read-npubcash.ts';
import { TestWallet } from '../helpers/wallet.ts';

/** What becomes of a row of npubcash, where nothing else has to be asked. */

const NOW_MS = 1_790_000_000_500;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const { pubkey } = new TestWallet('http://localhost');

describe('a payment of npubcash', () => {
  it('keeps its time where it is later than all that the list has, and shares it with others', () => {
    const times = [1_000, 2_000, 2_000].map((ago) => NOW_MS - 10_000 + ago);
    expect(paymentsIn(plan(times.map(paidAt), { lastPaidAtMs: NOW_MS - 9_501 }))).toEqual([
      { paidAtMs: times[0], paidSeq: 8 },
      { paidAtMs: times[1], paidSeq: 9 },
      { paidAtMs: times[2], paidSeq: 10 },
    ]);
  });

  it.each([
    ['is not later than the newest of the list', NOW_MS - 9_000],
    ['is of the second of the newest of the list', NOW_MS - 8_501],
    ['is of the future', NOW_MS + 1],
    ['has no time', null],
  ])('waits for the others, and then is as one paid now, where it %s', (_what, paidAtMs) => {
    const late = paidAt(paidAtMs);
    const onTime = paidAt(NOW_MS - 8_000);
    const known = { lastPaidAtMs: NOW_MS - 9_000 };
    const first = plan([late, onTime], known);
    expect(first.deferred).toEqual([late.row]);
    expect(paymentsIn(first)).toEqual([{ paidAtMs: NOW_MS - 8_000, paidSeq: 8 }]);
    const last = plan([late], known, { isLast: true });
    expect(paymentsIn(last)).toEqual([{ paidAtMs: NOW_MS, paidSeq: 8 }]);
    expect(last.dated).toBe(1);
  });

  it('waits where it is of the last seconds before a run beside npubcash', () => {
    const settledMs = NOW_MS - 5_000;
    const late = paidAt(settledMs + 1);
    const planned = plan([paidAt(settledMs), late], { lastPaidAtMs: null }, { settledMs });
    expect(paymentsIn(planned)).toEqual([{ paidAtMs: settledMs, paidSeq: 8 }]);
    expect(planned.deferred).toEqual([late.row]);
  });

  it('never runs more than moments ahead of the clock, however many are as if paid now', () => {
    const late = Array.from({ length: 900 }, () => paidAt(null));
    const times = paymentsIn(plan(late, { lastPaidAtMs: NOW_MS }, { isLast: true }));
    expect(times.map(({ paidSeq }) => paidSeq)).toEqual(late.map((_, index) => 8 + index));
    expect(Math.max(...times.map(({ paidAtMs }) => paidAtMs))).toBeLessThan(NOW_MS + 2_000);
    // A wallet that saw the list before asks for a later second than the one it knows.
    expect(Math.min(...times.map(({ paidAtMs }) => paidAtMs))).toBe(NOW_MS + 1_000);
  });

  it.each<[QuoteState, QuoteState, 'changed' | 'unchanged']>([
    ['PAID', 'ISSUED', 'changed'],
    ['INFLIGHT', 'PAID', 'changed'],
    ['PAID', 'INFLIGHT', 'unchanged'],
    ['ISSUED', 'PAID', 'unchanged'],
    ['EXPIRED', 'PAID', 'changed'],
  ])('that is %s here and %s there is %s: nothing is taken back', (here, there, outcome) => {
    const quote = { ...paidAt(NOW_MS - 5_000), state: there };
    const planned = plan([quote], { lastPaidAtMs: null, present: [{ quote, state: here }] });
    expect(planned.changes).toHaveLength(outcome === 'changed' ? 1 : 0);
    expect(planned.unchanged).toHaveLength(outcome === 'unchanged' ? 1 : 0);
    expect(planned.additions).toEqual([]);
  });

  it('is left out where another recipient has the quote already', () => {
    const quote = paidAt(NOW_MS - 5_000);
    const present = [{ quote: { ...quote, pubkey: 'another' }, state: 'PAID' as const }];
    expect(plan([quote], { lastPaidAtMs: null, present }).ofAnother).toEqual([quote.row]);
  });

  it('is watched for a week, unless its mint cannot be asked', () => {
    const quotes = [
      paidAt(NOW_MS - 8 * DAY_MS),
      paidAt(NOW_MS - DAY_MS),
      { ...paidAt(NOW_MS - DAY_MS), isReachable: false },
      { ...paidAt(NOW_MS - DAY_MS), state: 'ISSUED' as const },
      { ...paidAt(NOW_MS - DAY_MS), state: 'INFLIGHT' as const },
    ];
    const { additions } = plan(quotes, { lastPaidAtMs: null });
    expect(additions.map(({ watchUntilMs }) => watchUntilMs)).toEqual([
      null,
      NOW_MS + 6 * DAY_MS,
      null,
      null,
      NOW_MS + 6 * DAY_MS,
    ]);
  });
});

describe('a row of npubcash', () => {
  it('that expired within a day, or has a time of payment, is asked about again', () => {
    const expired = { state: 'EXPIRED', createdAtMs: NOW_MS - 3 * DAY_MS };
    expect(read({ ...expired, expiresAtMs: NOW_MS - 23 * HOUR_MS })).toMatchObject({
      state: 'UNPAID',
    });
    expect(read({ ...expired, expiresAtMs: NOW_MS - 2 * DAY_MS })).toMatchObject({
      state: 'EXPIRED',
    });
    expect(read({ ...expired, expiresAtMs: NOW_MS - 2 * DAY_MS, paidAtMs: NOW_MS })).toMatchObject({
      state: 'UNPAID',
      paidAtMs: null,
    });
  });

  it('of a mint that cannot be asked is listed where it is paid, and left out where it is not', () => {
    const mintUrl = 'http://Mint.example/';
    expect(read({ mintUrl, state: 'PAID' })).toMatchObject({
      mintUrl: 'http://mint.example',
      isReachable: false,
    });
    expect(read({ mintUrl, state: 'UNPAID' })).toBe('mint_out_of_reach');
  });

  it('without times has those of its invoice, and one that is unpaid ends within a year', () => {
    // From BOLT 11: made at 1496314658, and paid within an hour.
    const request =
      'lnbc1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6twvus8g6rfwvs8qun0dfjkxaq8rkx3yf5tcsyz3d73gafnh3cax9rn449d9p5uxz9ezhhypd0elx87sjle52x86fux2ypatgddc6k63n7erqz25le42c4u4ecky03ylcqca784w';
    expect(read({ request, createdAtMs: null, expiresAtMs: null })).toMatchObject({
      createdAtMs: 1_496_314_658_000,
      expiresAtMs: 1_496_318_258_000,
    });
    const farOff = { createdAtMs: NOW_MS, expiresAtMs: NOW_MS * 1000 };
    expect(read({ ...farOff, state: 'UNPAID' })).toMatchObject({
      expiresAtMs: NOW_MS + 365 * DAY_MS,
    });
    expect(read({ ...farOff, state: 'PAID' })).toMatchObject({ expiresAtMs: NOW_MS * 1000 });
  });

  it('ends when its invoice does where npubcash has an end before the beginning, and within a year', () => {
    // Invoices tell whole seconds.
    const createdAtMs = NOW_MS - 500 - 2 * DAY_MS;
    const ended = { createdAtMs, expiresAtMs: 0, state: 'EXPIRED' };
    const request = invoice(createdAtMs, 7 * DAY_MS);
    expect(read({ ...ended, request })).toMatchObject({
      state: 'UNPAID',
      expiresAtMs: createdAtMs + 7 * DAY_MS,
    });
    const endless = { createdAtMs, expiresAtMs: null, request: invoice(createdAtMs, 2 ** 60) };
    for (const state of ['UNPAID', 'PAID']) {
      expect(read({ ...endless, state })).toMatchObject({
        expiresAtMs: createdAtMs + 365 * DAY_MS,
      });
    }
    // Wallets know it so.
    expect(read({ ...ended, request, state: 'PAID' })).toMatchObject({ expiresAtMs: 0 });
  });

  it('without an invoice is listed where it is paid, and left out where it is not', () => {
    expect(read({ request: null, state: 'ISSUED' })).toMatchObject({ request: '' });
    expect(read({ request: null, state: 'UNPAID' })).toBe('no_invoice');
  });
});

function invoice(createdAtMs: number, lifeMs: number): string {
  return encodeInvoice(
    {
      amountMsat: 21_000,
      createdAt: Math.floor(createdAtMs / 1000),
      expirySeconds: Math.floor(lifeMs / 1000),
      paymentHash: Buffer.alloc(32, 1),
      paymentSecret: Buffer.alloc(32, 2),
      description: 'a payment to npubcash',
    },
    Buffer.alloc(32, 7),
  );
}

let rows = 0;

function row(given: Partial<NpubcashQuote> = {}): NpubcashQuote {
  rows += 1;
  return {
    id: rows,
    createdAtMs: NOW_MS - 10 * DAY_MS,
    unit: 'sat',
    mintUrl: 'https://mint.example',
    request: 'lnbc1',
    quoteId: randomUUID(),
    expiresAtMs: NOW_MS - 10 * DAY_MS + HOUR_MS,
    amountSat: 21,
    pubkey,
    state: 'PAID',
    paidAtMs: null,
    locked: false,
    zapRequest: null,
    ...given,
  };
}

function read(given: Partial<NpubcashQuote>) {
  return readNpubcashQuote(row(given), { keys: new KeyReader(), allowHttp: false, nowMs: NOW_MS });
}

function paidAt(paidAtMs: number | null): BroughtQuote {
  const quote = read({ paidAtMs });
  if (typeof quote === 'string') {
    throw new Error(quote);
  }
  return quote;
}

/** A recipient who has seven payments. */
function plan(
  quotes: readonly BroughtQuote[],
  known: { lastPaidAtMs: number | null; present?: { quote: BroughtQuote; state: QuoteState }[] },
  { isLast = false, settledMs = NOW_MS } = {},
): QuotesPlan {
  const present = (known.present ?? []).map(({ quote, state }, id) => ({ ...quote, id, state }));
  return planQuotes(
    quotes,
    {
      present: new Map(present.map((quote) => [keyOfQuote(quote), quote])),
      counters: new Map([[pubkey, { pubkey, paidCount: 7, lastPaidAtMs: known.lastPaidAtMs }]]),
    },
    { isLast, nowMs: NOW_MS, settledMs },
  );
}

function paymentsIn({ additions }: QuotesPlan): { paidAtMs: number; paidSeq: number }[] {
  return additions.flatMap(({ payment }) => (payment === null ? [] : [payment]));
}
