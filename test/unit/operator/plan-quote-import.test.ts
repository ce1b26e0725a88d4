import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { planQuoteImport } from '../../../src/operator/import-npubcash/import-quotes.ts';
import type { NpubcashQuote } from '../../../src/operator/import-npubcash/npubcash-source.ts';
import {
  type ParsedNpubcashQuote,
  parseNpubcashQuote,
} from '../../../src/operator/import-npubcash/parse-npubcash-rows.ts';
import { RecipientClient } from '../../helpers/recipients/recipient-client.ts';
import { createInvoice } from '../../operations/npubcash/npubcash-database.ts';

const NOW_MS = 1_790_000_000_500;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const WEEK_MS = 7 * DAY_MS;

const { pubkey } = new RecipientClient('http://localhost');

// test/operations/import-npubcash.test.ts imports whole lists, and invoices that may still be paid.

describe('planQuoteImport', () => {
  it('lists a payment as paid now if its time is in the second of the newest stored payment', () => {
    const { quotes, changedTimeCount } = planImport(
      [createPaidQuote(NOW_MS - 8_501)],
      NOW_MS - 9_000,
    );
    expect(quotes[0]?.payment).toEqual({ paidAtMs: NOW_MS, paidSeq: 8 });
    expect(changedTimeCount).toBe(1);
  });

  it('gives payments that have no time the next second if wallets have seen this one', () => {
    const { quotes } = planImport([createPaidQuote(null), createPaidQuote(null)], NOW_MS);
    const times = quotes.map(({ payment }) => payment?.paidAtMs);
    expect(times).toEqual([NOW_MS + 500, NOW_MS + 500]);
  });

  it('watches a PAID quote for a week after its payment and checks an older INFLIGHT quote once', () => {
    const old = createPaidQuote(NOW_MS - 8 * DAY_MS);
    const recent = createPaidQuote(NOW_MS - DAY_MS);
    const cases: [quote: ParsedNpubcashQuote, watchUntilMs: number | null][] = [
      [old, null],
      // A time in the past: the service checks the quote once and then stops.
      [{ ...old, state: 'INFLIGHT' }, NOW_MS - DAY_MS],
      [recent, NOW_MS + 6 * DAY_MS],
      [{ ...recent, isMintAllowed: false }, null],
      [{ ...recent, state: 'ISSUED' }, null],
    ];
    for (const [quote, watchUntilMs] of cases) {
      expect(planImport([quote], null).quotes).toMatchObject([{ watchUntilMs }]);
    }
  });
});

describe('parseNpubcashQuote', () => {
  const createdAtMs = NOW_MS - 500 - 2 * DAY_MS;
  const weekInvoice = createInvoice(21, createdAtMs, WEEK_MS / 1000);
  const endlessInvoice = createInvoice(21, createdAtMs, 2 ** 50);
  const asUnpaid = { state: 'UNPAID', paidAtMs: null } as const;
  const expired: Partial<NpubcashQuote> = {
    state: 'EXPIRED',
    createdAtMs: NOW_MS - 3 * DAY_MS,
    expiresAtMs: NOW_MS - 2 * DAY_MS,
  };

  const withoutTimes = { request: weekInvoice, createdAtMs: null, expiresAtMs: null };
  const withoutExpiry = { request: weekInvoice, createdAtMs, expiresAtMs: 0, state: 'UNPAID' };
  const inAWeek = { expiresAtMs: createdAtMs + WEEK_MS };
  const paidOverHttp = { mintUrl: 'http://Mint.example/', state: 'PAID' };

  it.each<[string, Partial<NpubcashQuote>, Partial<ParsedNpubcashQuote>]>([
    [
      'imports an EXPIRED quote with a payment time as UNPAID',
      { ...expired, paidAtMs: 1 },
      asUnpaid,
    ],
    ['takes missing times from the invoice', withoutTimes, { createdAtMs, ...inAWeek }],
    ['takes the expiry from the invoice if the stored one is not valid', withoutExpiry, inAWeek],
    [
      'limits an expiry to a year after the creation',
      { ...withoutExpiry, request: endlessInvoice },
      { expiresAtMs: createdAtMs + 365 * DAY_MS },
    ],
    ['imports a paid quote without an invoice', { request: null }, { request: '' }],
    [
      'imports a paid quote of a mint without https',
      paidOverHttp,
      { mintUrl: 'http://mint.example', isMintAllowed: false },
    ],
  ])('%s', (_case, changes, expected) => {
    expect(parseRow(changes)).toMatchObject(expected);
  });

  it('skips an unpaid quote of a mint without https', () => {
    expect(parseRow({ ...paidOverHttp, state: 'UNPAID' })).toBe('mint_url_not_allowed');
  });
});

function parseRow(changes: Partial<NpubcashQuote>) {
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
    ...changes,
  };
  return parseNpubcashQuote(row, { allowHttpMints: false, nowMs: NOW_MS });
}

function createPaidQuote(paidAtMs: number | null): ParsedNpubcashQuote {
  const quote = parseRow({ paidAtMs });
  return typeof quote === 'string' ? expect.fail(quote) : quote;
}

/** Plans an import for a recipient who has seven stored payments, which a wallet has seen. */
function planImport(quotes: readonly ParsedNpubcashQuote[], lastPaidAtMs: number | null) {
  const listedUntilMs = (Math.floor((lastPaidAtMs ?? 0) / 1000) + 1) * 1000;
  const counters = [{ pubkey, paidCount: 7, lastPaidAtMs, listedUntilMs }];
  return planQuoteImport(quotes, counters, NOW_MS);
}
