import { expect, it } from 'vitest';
import { resolveQuoteExpirySeconds } from '../../../src/quotes/bolt11.ts';

// All values are in seconds. Times are Unix times.
const CREATED_AT = 1_800_000_000;
/** The clock of the service differs from the clock of the mint. */
const NOW = CREATED_AT + 5;
const YEAR = 365 * 24 * 60 * 60;
const INVOICE_EXPIRES_AT = CREATED_AT + 3_600;
const INVOICE = {
  paymentHash: 'ab'.repeat(32),
  amountMsat: 21_000,
  createdAtSeconds: CREATED_AT,
  expiresAtSeconds: INVOICE_EXPIRES_AT,
};

it.each([
  ["the mint's expiry", CREATED_AT + 600, CREATED_AT + 600],
  ["the invoice's expiry for a time before the creation", CREATED_AT - 10, INVOICE_EXPIRES_AT],
  ["the invoice's expiry for a duration", 3_600, INVOICE_EXPIRES_AT],
  ["the invoice's expiry for 0", 0, INVOICE_EXPIRES_AT],
  ["the mint's expiry in seconds for milliseconds", (CREATED_AT + 600) * 1_000, CREATED_AT + 600],
  ["the mint's expiry in whole seconds for a fraction", CREATED_AT + 600.9, CREATED_AT + 600],
  ['a year from now for a later expiry', CREATED_AT + 2 * YEAR, NOW + YEAR],
])('returns %s', (_case, mintExpiry, expected) => {
  expect(resolveQuoteExpirySeconds(mintExpiry, INVOICE, NOW)).toBe(expected);
});

it.each([
  ['expires later', { expiresAtSeconds: CREATED_AT + 100 * YEAR }],
  [
    'was created in the far future',
    { createdAtSeconds: CREATED_AT + 1_000 * YEAR, expiresAtSeconds: CREATED_AT + 1_001 * YEAR },
  ],
])('returns a year from now if the invoice %s', (_case, times) => {
  expect(resolveQuoteExpirySeconds(null, { ...INVOICE, ...times }, NOW)).toBe(NOW + YEAR);
});
