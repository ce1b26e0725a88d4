import fc from 'fast-check';
import { expect, it } from 'vitest';
import { computeNextPaidAtMs, computeReceiptCreatedAtMs } from '../../src/quotes/quote-state.ts';

const NOW = 1_800_000_000_000;

/** Wallets accept payments this far in the future. */
const MAX_AHEAD_MS = 5_000;

it.each([
  ['the first payment', null, NOW],
  ['a payment after a minute', NOW - 60_000, NOW],
  ['a payment after a second', NOW - 1_000, NOW],
  ['a payment in the same second', NOW - 1, NOW + 999],
  ['a payment at the same time', NOW, NOW + 1_000],
  ['one of many payments', NOW + 3_000, NOW + 4_000],
  ['one of very many payments', NOW + 4_500, NOW + MAX_AHEAD_MS],
  ['one of even more payments', NOW + MAX_AHEAD_MS, NOW + MAX_AHEAD_MS + 1],
  ['a payment after the clock was set back', NOW + 3_600_000, NOW + 3_600_001],
])('assigns the time for %s', (_case, lastPaidAtMs, expected) => {
  expect(computeNextPaidAtMs(lastPaidAtMs, NOW)).toBe(expected);
});

it('increases strictly, whatever the clock does', () => {
  const steps = fc.array(fc.integer({ min: -10_000, max: 10_000 }), { maxLength: 200 });
  fc.assert(
    fc.property(steps, (stepsMs) => {
      let nowMs = NOW;
      let lastMs: number | null = null;
      for (const stepMs of stepsMs) {
        nowMs += stepMs;
        const paidAtMs = computeNextPaidAtMs(lastMs, nowMs);
        expect(paidAtMs).toBeGreaterThan(lastMs ?? Number.NEGATIVE_INFINITY);
        expect(paidAtMs).toBeGreaterThanOrEqual(nowMs);
        lastMs = paidAtMs;
      }
    }),
  );
});

it.each([
  [NOW, NOW],
  [NOW - 60_000, NOW - 60_000],
  [NOW + 5_000, NOW + MAX_AHEAD_MS],
  [NOW + 86_400_000, NOW + MAX_AHEAD_MS],
])('receiptDateMs of %i is %i', (paidAtMs, expected) => {
  expect(computeReceiptCreatedAtMs(paidAtMs, NOW)).toBe(expected);
});
