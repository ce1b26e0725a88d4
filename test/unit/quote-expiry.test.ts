import { describe, expect, it } from 'vitest';
import { quoteExpiresAt } from '../../src/domain/quote-expiry.ts';

const CREATED = 1_800_000_000;
const YEAR = 365 * 24 * 60 * 60;
const INVOICE = {
  paymentHash: 'ab'.repeat(32),
  amountMsat: 21_000,
  createdAt: CREATED,
  expiresAt: CREATED + 3_600,
};

describe('the end of a quote', () => {
  it.each([
    ['is the mint’s word', CREATED + 600, CREATED + 600],
    ['is the mint’s word, even before the invoice’s', CREATED + 10, CREATED + 10],
    ['is the invoice’s where the mint’s is over before it began', CREATED - 10, CREATED + 3_600],
    ['is the invoice’s where the mint says how long and not when', 3_600, CREATED + 3_600],
    ['is the invoice’s where the mint says nothing', null, CREATED + 3_600],
    ['is the invoice’s where the mint says 0', 0, CREATED + 3_600],
    ['is the invoice’s where the mint says nonsense', -1, CREATED + 3_600],
    ['is in seconds where the mint says milliseconds', (CREATED + 600) * 1_000, CREATED + 600],
    ['is a whole second', CREATED + 600.9, CREATED + 600],
    ['is a year away at most', CREATED + 2 * YEAR, CREATED + YEAR],
    ['is a year away at most, in milliseconds too', Number.MAX_VALUE, CREATED + YEAR],
  ])('%s', (_case, expiry, expected) => {
    expect(quoteExpiresAt(expiry, INVOICE)).toBe(expected);
  });

  it('is a year away at most where the invoice waits longer', () => {
    const patient = { ...INVOICE, expiresAt: CREATED + 100 * YEAR };
    expect(quoteExpiresAt(null, patient)).toBe(CREATED + YEAR);
  });
});
