import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sendableRange } from '../../src/domain/lnurl.ts';
import type { MintInfo } from '../../src/domain/mint-info.ts';

// test/acceptance/lnurl.test.ts covers amounts of payers, and metadata.

const OPERATOR = { minMsat: 1_000, maxMsat: 1_000_000_000 };

it.each<[string, typeof OPERATOR, MintInfo | null, [number, number] | null]>([
  ['an unknown mint', OPERATOR, null, [1_000, 1_000_000_000]],
  ['a higher minimum', OPERATOR, mint(5, null), [5_000, 1_000_000_000]],
  ['a lower maximum', OPERATOR, mint(null, 500), [1_000, 500_000]],
  ['fractions of a sat', { minMsat: 1, maxMsat: 10_999 }, null, [1_000, 10_000]],
  ['disjoint limits', OPERATOR, mint(1_000_001, null), null],
  ['no whole sat', { minMsat: 1_001, maxMsat: 1_999 }, null, null],
])('sendableRange with %s', (_case, operator, info, expected) => {
  const range = sendableRange(operator, info);
  expect(range && [range.minMsat, range.maxMsat]).toEqual(expected);
});

it('sendableRange keeps both limits, in whole sats', () => {
  const limit = fc.option(fc.integer({ min: 1, max: 3_000_000 }));
  const msat = fc.integer({ min: 1, max: 2_000_000_000 });
  fc.assert(
    fc.property(msat, msat, limit, limit, (minMsat, maxMsat, minSat, maxSat) => {
      const range = sendableRange({ minMsat, maxMsat }, mint(minSat, maxSat));
      if (range !== null) {
        expect(range.minMsat).toBeGreaterThanOrEqual(Math.max(minMsat, (minSat ?? 0) * 1_000));
        expect(range.maxMsat).toBeLessThanOrEqual(Math.min(maxMsat, (maxSat ?? 1e9) * 1_000));
        expect(range.minMsat).toBeLessThanOrEqual(range.maxMsat);
        expect([range.minMsat % 1_000, range.maxMsat % 1_000]).toEqual([0, 0]);
      }
    }),
  );
});

function mint(minAmountSat: number | null, maxAmountSat: number | null): MintInfo {
  return {
    mintsBolt11Sat: true,
    minAmountSat,
    maxAmountSat,
    locking: true,
    subscriptions: false,
    batchCheck: null,
    restoresEcash: false,
    takesDescription: false,
    takesDescriptionHash: false,
  };
}
