import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { computeNextPaidAtMs, computeReceiptCreatedAtMs } from '../../../src/quotes/quote-state.ts';

const NOW_MS = 1_800_000_000_000;

/** Wallets accept payments this far in the future. */
const MAX_AHEAD_MS = 5_000;

describe('computeNextPaidAtMs', () => {
  it.each([
    ['now for the first payment', null, NOW_MS],
    ['now if the last payment was a minute ago', NOW_MS - 60_000, NOW_MS],
    ['now if the last payment was a second ago', NOW_MS - 1_000, NOW_MS],
    ['a second after the last payment if that was 1 ms ago', NOW_MS - 1, NOW_MS + 999],
    ['a second after the last payment if that was now', NOW_MS, NOW_MS + 1_000],
    ['a second after a last time 3 s ahead of the clock', NOW_MS + 3_000, NOW_MS + 4_000],
    ['5 s ahead if the last time is 4.5 s ahead', NOW_MS + 4_500, NOW_MS + MAX_AHEAD_MS],
    ['1 ms after a last time 5 s ahead', NOW_MS + MAX_AHEAD_MS, NOW_MS + MAX_AHEAD_MS + 1],
    ['1 ms after a last time an hour ahead', NOW_MS + 3_600_000, NOW_MS + 3_600_001],
  ])('returns %s', (_case, lastPaidAtMs, expectedMs) => {
    expect(computeNextPaidAtMs(lastPaidAtMs, NOW_MS)).toBe(expectedMs);
  });

  it('increases strictly even if the clock is set back', () => {
    const clockSteps = fc.array(fc.integer({ min: -10_000, max: 10_000 }), { maxLength: 200 });
    fc.assert(
      fc.property(clockSteps, (stepsMs) => {
        let nowMs = NOW_MS;
        let lastPaidAtMs: number | null = null;
        for (const stepMs of stepsMs) {
          nowMs += stepMs;
          const paidAtMs = computeNextPaidAtMs(lastPaidAtMs, nowMs);
          expect(paidAtMs).toBeGreaterThan(lastPaidAtMs ?? Number.NEGATIVE_INFINITY);
          expect(paidAtMs).toBeGreaterThanOrEqual(nowMs);
          lastPaidAtMs = paidAtMs;
        }
      }),
    );
  });
});

describe('computeReceiptCreatedAtMs', () => {
  it.each([
    ['the payment time if that is now', NOW_MS, NOW_MS],
    ['the payment time if that is in the past', NOW_MS - 60_000, NOW_MS - 60_000],
    ['the payment time if that is 5 s ahead of the clock', NOW_MS + 5_000, NOW_MS + MAX_AHEAD_MS],
    ['5 s ahead if the payment time is a day ahead', NOW_MS + 86_400_000, NOW_MS + MAX_AHEAD_MS],
  ])('returns %s', (_case, paidAtMs, expectedMs) => {
    expect(computeReceiptCreatedAtMs(paidAtMs, NOW_MS)).toBe(expectedMs);
  });
});
