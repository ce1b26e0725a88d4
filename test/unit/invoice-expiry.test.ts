import { expect, it } from 'vitest';
import { resolveQuoteExpirySeconds } from '../../src/quotes/bolt11.ts';

const CREATED = 1_800_000_000;
const YEAR = 365 * 24 * 60 * 60;
const INVOICE = {
  paymentHash: 'ab'.repeat(32),
  amountMsat: 21_000,
  createdAtSeconds: CREATED,
  expiresAtSeconds: CREATED + 3_600,
};

it.each([
  ['the expiry of the mint', CREATED + 600, CREATED + 600],
  ['an expiry before that of the invoice', CREATED + 10, CREATED + 10],
  ['the invoice for an expiry before the creation', CREATED - 10, CREATED + 3_600],
  ['the invoice for a duration', 3_600, CREATED + 3_600],
  ['the invoice for null', null, CREATED + 3_600],
  ['the invoice for 0', 0, CREATED + 3_600],
  ['the invoice for a negative expiry', -1, CREATED + 3_600],
  ['seconds for milliseconds', (CREATED + 600) * 1_000, CREATED + 600],
  ['whole seconds', CREATED + 600.9, CREATED + 600],
  ['at most a year', CREATED + 2 * YEAR, CREATED + YEAR],
  ['at most a year for milliseconds', Number.MAX_VALUE, CREATED + YEAR],
])('uses %s', (_case, expiry, expected) => {
  expect(resolveQuoteExpirySeconds(expiry, INVOICE)).toBe(expected);
});

it('returns at most a year for a long invoice', () => {
  expect(
    resolveQuoteExpirySeconds(null, { ...INVOICE, expiresAtSeconds: CREATED + 100 * YEAR }),
  ).toBe(CREATED + YEAR);
});
