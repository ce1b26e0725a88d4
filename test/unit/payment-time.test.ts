import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nextPaidAtMs, receiptDateMs } from '../../src/domain/payment-time.ts';

const NOW = 1_800_000_000_000;

/** As far as wallets bear a payment in the future. */
const MAX_AHEAD_MS = 5_000;

describe('the time of a payment', () => {
  it.each([
    ['the first is now', null, NOW],
    ['one after a while is now', NOW - 60_000, NOW],
    ['one a second later is now', NOW - 1_000, NOW],
    ['one in the same second waits for the next', NOW - 1, NOW + 999],
    ['one at the same moment is a second later', NOW, NOW + 1_000],
    ['one of many runs ahead by seconds', NOW + 3_000, NOW + 4_000],
    ['but no further than a wallet bears', NOW + 4_500, NOW + MAX_AHEAD_MS],
    ['and then by the least that keeps the order', NOW + MAX_AHEAD_MS, NOW + MAX_AHEAD_MS + 1],
    ['also when the clock was set back', NOW + 3_600_000, NOW + 3_600_001],
  ])('%s', (_case, lastPaidAtMs, expected) => {
    expect(nextPaidAtMs(lastPaidAtMs, NOW)).toBe(expected);
  });

  it('strictly increases, however payments and clock go', () => {
    const steps = fc.array(fc.integer({ min: -10_000, max: 10_000 }), { maxLength: 200 });
    fc.assert(
      fc.property(steps, (stepsMs) => {
        let nowMs = NOW;
        let lastMs: number | null = null;
        for (const stepMs of stepsMs) {
          nowMs += stepMs;
          const paidAtMs = nextPaidAtMs(lastMs, nowMs);
          expect(paidAtMs).toBeGreaterThan(lastMs ?? Number.NEGATIVE_INFINITY);
          expect(paidAtMs).toBeGreaterThanOrEqual(nowMs);
          lastMs = paidAtMs;
        }
      }),
    );
  });

  it('runs ahead of a clock that never goes back by its bound, and a millisecond for each payment', () => {
    const steps = fc.array(fc.integer({ min: 0, max: 2_000 }), { maxLength: 200 });
    fc.assert(
      fc.property(steps, (stepsMs) => {
        let nowMs = NOW;
        let lastMs: number | null = null;
        for (const [index, stepMs] of stepsMs.entries()) {
          nowMs += stepMs;
          lastMs = nextPaidAtMs(lastMs, nowMs);
          expect(lastMs - nowMs).toBeLessThanOrEqual(MAX_AHEAD_MS + index);
        }
      }),
    );
  });
});

describe('the date of a receipt', () => {
  it.each([
    ['is its payment’s time', NOW, NOW],
    ['is its payment’s time as far ahead as one usually runs', NOW + 5_000, NOW + MAX_AHEAD_MS],
    ['is its payment’s time in the past', NOW - 60_000, NOW - 60_000],
    ['is no further ahead where the clock was set back', NOW + 86_400_000, NOW + MAX_AHEAD_MS],
  ])('%s', (_case, paidAtMs, expected) => {
    expect(receiptDateMs(paidAtMs, NOW)).toBe(expected);
  });
});
