import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { NpubcashQuote } from '../../src/operator/import-npubcash/npubcash-source.ts';
import {
  type ParsedNpubcashQuote,
  parseNpubcashQuote,
} from '../../src/operator/import-npubcash/parse-npubcash-rows.ts';
import {
  planQuoteImport,
  type QuoteImportPlan,
} from '../../src/operator/import-npubcash/plan-quote-import.ts';
import { TestWallet } from '../helpers/test-wallet.ts';
import { createInvoice } from '../operations/npubcash/npubcash-database.ts';

const NOW_MS = 1_790_000_000_500;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const { pubkey } = new TestWallet('http://localhost');

describe('planQuoteImport', () => {
  it("keeps times later than the list's newest payment, even if they are equal", () => {
    const times = [1_000, 2_000, 2_000].map((ms) => NOW_MS - 10_000 + ms);
    const { quotesToInsert: additions, redatedCount: redated } = plan(
      times.map(paidAt),
      NOW_MS - 9_501,
    );
    expect(additions.map(({ payment }) => payment)).toEqual(
      times.map((paidAtMs, index) => ({ paidAtMs, paidSeq: 8 + index })),
    );
    expect(redated).toBe(0);
  });

  it.each([
    ['is earlier than the newest of the list', NOW_MS - 10_000],
    ['has the same second as the newest of the list', NOW_MS - 8_501],
    ['is in the future', NOW_MS + 1],
    ['is missing', null],
  ])('lists a payment as paid now if its time %s', (_what, paidAtMs) => {
    const { quotesToInsert: additions, redatedCount: redated } = plan(
      [paidAt(paidAtMs)],
      NOW_MS - 9_000,
    );
    expect(additions[0]?.payment).toEqual({ paidAtMs: NOW_MS, paidSeq: 8 });
    expect(redated).toBe(1);
  });

  it('lists many payments as paid now without running ahead of the clock', () => {
    const { quotesToInsert: additions } = plan(
      Array.from({ length: 900 }, () => paidAt(null)),
      NOW_MS,
    );
    const times = additions.map(({ payment }) => payment?.paidAtMs ?? 0);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(times.at(-1)).toBeLessThan(NOW_MS + 2_000);
    // A wallet that has seen the list ignores payments that are not a second later.
    expect(times[0]).toBe(NOW_MS + 1_000);
  });

  it('watches payments for a week, and in-flight ones at least once, if the mint can be reached', () => {
    const old = paidAt(NOW_MS - 8 * DAY_MS);
    const young = paidAt(NOW_MS - DAY_MS);
    const { quotesToInsert: additions } = plan(
      [
        old,
        { ...old, state: 'INFLIGHT' },
        young,
        { ...young, isMintAllowed: false },
        { ...young, state: 'ISSUED' },
      ],
      null,
    );
    expect(additions.map(({ watchUntilMs }) => watchUntilMs)).toEqual([
      null,
      NOW_MS - DAY_MS,
      NOW_MS + 6 * DAY_MS,
      null,
      null,
    ]);
  });
});

describe('parseNpubcashQuote', () => {
  const createdAtMs = NOW_MS - 500 - 2 * DAY_MS;
  const request = createInvoice(21, createdAtMs, (7 * DAY_MS) / 1000);
  const endless = createInvoice(21, createdAtMs, 2 ** 50);
  const expired = { state: 'EXPIRED', createdAtMs: NOW_MS - 3 * DAY_MS };

  const WEEK_MS = 7 * DAY_MS;
  const ended = { ...expired, expiresAtMs: NOW_MS - 2 * DAY_MS };
  const reopened = { state: 'UNPAID', paidAtMs: null } as const;
  const http = { mintUrl: 'http://mint.example', isMintAllowed: false };

  it.each<[string, Partial<NpubcashQuote>, Partial<ParsedNpubcashQuote>]>([
    ['reopens a quote of the last day', { ...ended, expiresAtMs: NOW_MS - 23 * HOUR_MS }, reopened],
    ['does not reopen an older one', ended, { state: 'EXPIRED' }],
    ['reopens an expired quote that was paid', { ...ended, paidAtMs: NOW_MS }, reopened],
    [
      'takes missing times from the invoice',
      { request, createdAtMs: null, expiresAtMs: null },
      { createdAtMs, expiresAtMs: createdAtMs + WEEK_MS },
    ],
    [
      'takes the expiry from the invoice if it is before the creation',
      { request, createdAtMs, expiresAtMs: 0, state: 'UNPAID' },
      { expiresAtMs: createdAtMs + WEEK_MS },
    ],
    [
      'keeps the expiry that wallets know of a payment',
      { request, createdAtMs, expiresAtMs: 0, state: 'PAID' },
      { expiresAtMs: 0 },
    ],
    [
      'limits an expiry to a year',
      { request: endless, createdAtMs, expiresAtMs: null, state: 'UNPAID' },
      { expiresAtMs: createdAtMs + 365 * DAY_MS },
    ],
    ['imports a payment without an invoice', { request: null, state: 'ISSUED' }, { request: '' }],
    ['imports a payment without https', { mintUrl: 'http://Mint.example/', state: 'PAID' }, http],
  ])('%s', (_what, row, quote) => {
    expect(read(row)).toMatchObject(quote);
  });

  it('skips an unpaid quote at a mint that cannot be reached', () => {
    expect(read({ mintUrl: 'http://mint.example', state: 'UNPAID' })).toBe('mint_out_of_reach');
  });
});

function read(given: Partial<NpubcashQuote>) {
  const row: NpubcashQuote = {
    id: 1,
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
  return parseNpubcashQuote(row, { allowHttp: false, nowMs: NOW_MS });
}

function paidAt(paidAtMs: number | null): ParsedNpubcashQuote {
  const quote = read({ paidAtMs });
  if (typeof quote === 'string') {
    throw new Error(quote);
  }
  return quote;
}

/** Plans an import for a recipient with seven payments. */
function plan(
  quotes: readonly ParsedNpubcashQuote[],
  lastPaidAtMs: number | null,
): QuoteImportPlan {
  const counters = [{ pubkey, paidCount: 7, lastPaidAtMs }];
  return planQuoteImport(quotes, { existingKeys: new Set(), counters }, NOW_MS);
}
