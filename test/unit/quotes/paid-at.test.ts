import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  computeListedAtMs,
  computeNextPaidAtMs,
  computeReceiptCreatedAtMs,
  computeUnlistedRange,
} from '../../../src/quotes/quote-state.ts';

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
    ['a second after a last time 59 s ahead', NOW_MS + 59_000, NOW_MS + 60_000],
    ['60 s ahead if the last time is 59.5 s ahead', NOW_MS + 59_500, NOW_MS + 60_000],
    ['1 ms after a last time 60 s ahead', NOW_MS + 60_000, NOW_MS + 60_001],
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

describe('a payment', () => {
  it.each([
    ['at once if it was paid now', NOW_MS, true],
    ['at once at the end of the second 5 s ahead', NOW_MS + 5_999, true],
    ['later if it was paid in the second 6 s ahead', NOW_MS + 6_000, false],
    ['later if it was paid 60 s ahead', NOW_MS + 60_999, false],
    ['at once if it was paid so far ahead that the clock was set back', NOW_MS + 65_000, true],
  ])('is listed %s', (_case, paidAtMs, isListedAtOnce) => {
    expect(isListed(paidAtMs, paidAtMs, NOW_MS)).toBe(isListedAtOnce);
    const listedAtMs = computeListedAtMs(paidAtMs);
    expect(isListed(paidAtMs, paidAtMs, listedAtMs)).toBe(true);
    expect(isListed(paidAtMs, paidAtMs, listedAtMs - 1)).toBe(false);
  });

  it('is received by a wallet that ignores payments not later than its newest one, in any sequence of bursts', () => {
    const burst = fc.record({
      paymentCount: fc.integer({ min: 1, max: 400 }),
      perSecond: fc.integer({ min: 1, max: 200 }),
      pauseMs: fc.integer({ min: 0, max: 90_000 }),
    });
    fc.assert(
      fc.property(fc.array(burst, { maxLength: 10 }), fc.gen(), (bursts, random) => {
        const isChosen = (share: number) => random(fc.nat, { max: 999 }) < share * 1000;
        // The clocks of two processes.
        const chooseSkewMs = () => (isChosen(0.5) ? 0 : -1_500);
        const simulation = new WatermarkSimulation();
        for (const { paymentCount, perSecond, pauseMs } of bursts) {
          for (let i = 0; i < paymentCount; i += 1) {
            simulation.pay(chooseSkewMs());
            simulation.nowMs += 1_000 / perSecond;
            if (isChosen(0.1)) {
              simulation.sync(chooseSkewMs());
            }
          }
          simulation.nowMs += pauseMs;
          simulation.sync(chooseSkewMs());
        }
        simulation.expectAllReceived();
      }),
      // Shrinking would take minutes.
      { numRuns: 50, endOnFailure: true },
    );
  });

  it.each([
    [2, 600],
    [40, 300],
    [200, 180],
    [900, 60],
  ])('is received by such a wallet at %i payments per second for %i s', (perSecond, seconds) => {
    const simulation = new WatermarkSimulation();
    for (let i = 1; i <= perSecond * seconds; i += 1) {
      simulation.pay();
      simulation.nowMs += 1_000 / perSecond;
      if (i % Math.ceil(perSecond * 0.7) === 0) {
        simulation.sync();
      }
    }
    simulation.expectAllReceived();
  });
});

/** Payments to one recipient, whose wallet receives only payments that are later than its newest one, in seconds. */
class WatermarkSimulation {
  nowMs = NOW_MS;
  readonly #paidAtMs: number[] = [];
  #receivedCount = 0;
  #watermark = 0;

  /** @param clockSkewMs of the process that records the payment */
  pay(clockSkewMs = 0): void {
    const nowMs = Math.floor(this.nowMs + clockSkewMs);
    const paidAtMs = computeNextPaidAtMs(this.#paidAtMs.at(-1) ?? null, nowMs);
    expect(computeListedAtMs(paidAtMs) - nowMs).toBeLessThanOrEqual(60_000);
    this.#paidAtMs.push(paidAtMs);
  }

  /** @param clockSkewMs of the process that returns the list */
  sync(clockSkewMs = 0): void {
    const nowMs = Math.floor(this.nowMs + clockSkewMs);
    const newestMs = this.#paidAtMs.at(-1) ?? 0;
    let watermark = this.#watermark;
    for (const paidAtMs of this.#paidAtMs.slice(this.#receivedCount)) {
      const paidAt = Math.floor(paidAtMs / 1000);
      if (paidAt > this.#watermark && isListed(paidAtMs, newestMs, nowMs)) {
        expect(paidAt * 1000).toBeLessThanOrEqual(nowMs + MAX_AHEAD_MS);
        this.#receivedCount += 1;
        watermark = paidAt;
      }
    }
    this.#watermark = watermark;
  }

  expectAllReceived(): void {
    this.nowMs += 60_000;
    this.sync();
    expect(this.#receivedCount).toBe(this.#paidAtMs.length);
  }
}

function isListed(paidAtMs: number, newestPaidAtMs: number, nowMs: number): boolean {
  const { fromMs, untilMs } = computeUnlistedRange(nowMs);
  return paidAtMs < fromMs || newestPaidAtMs >= untilMs;
}
