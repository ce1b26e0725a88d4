import { expect, it } from 'vitest';
import { computePaidAtMs, computeReceiptCreatedAtMs } from '../../../src/quotes/quote-state.ts';

const NOW_MS = 1_800_000_000_000;

it.each([
  ['now for the first payment', null, 0, NOW_MS],
  ['now if the last payment was just now, and no read has listed it', NOW_MS - 1, 0, NOW_MS],
  ['the next second if a read has listed this one', NOW_MS, NOW_MS + 1_000, NOW_MS + 1_000],
  ['the last time if another clock is ahead', NOW_MS + 300, 0, NOW_MS + 300],
  [
    'the second after the listed one if the clock was set back',
    NOW_MS + 3_600_000,
    NOW_MS + 3_601_000,
    NOW_MS + 3_601_000,
  ],
])('computePaidAtMs returns %s', (_case, lastPaidAtMs, listedUntilMs, expectedMs) => {
  expect(computePaidAtMs({ lastPaidAtMs, listedUntilMs }, NOW_MS)).toBe(expectedMs);
});

it.each([
  ['the payment time if that is now', NOW_MS, NOW_MS],
  ['the payment time if that is 5 s ahead of the clock', NOW_MS + 5_000, NOW_MS + 5_000],
  ['5 s ahead if the payment time is a day ahead', NOW_MS + 86_400_000, NOW_MS + 5_000],
])('computeReceiptCreatedAtMs returns %s', (_case, paidAtMs, expectedMs) => {
  expect(computeReceiptCreatedAtMs(paidAtMs, NOW_MS)).toBe(expectedMs);
});
