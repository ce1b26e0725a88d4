import fc from 'fast-check';
import { expect, it } from 'vitest';
import { amountProblem, lnurlMetadata, sendableRange } from '../../src/domain/lnurl.ts';
import type { MintInfo } from '../../src/domain/mint-info.ts';

const OPERATOR = { minMsat: 1_000, maxMsat: 1_000_000_000 };

it.each<[string, typeof OPERATOR, MintInfo | null, [number, number] | null]>([
  ['an unknown mint', OPERATOR, null, [1_000, 1_000_000_000]],
  ['a mint without limits', OPERATOR, mint(null, null), [1_000, 1_000_000_000]],
  ['a higher minimum', OPERATOR, mint(5, null), [5_000, 1_000_000_000]],
  ['a lower maximum', OPERATOR, mint(null, 500), [1_000, 500_000]],
  ['a single amount', OPERATOR, mint(7, 7), [7_000, 7_000]],
  ['wider limits', OPERATOR, mint(1, 10_000_000), [1_000, 1_000_000_000]],
  ['fractions of a sat', { minMsat: 1, maxMsat: 10_999 }, null, [1_000, 10_000]],
  ['disjoint limits', OPERATOR, mint(1_000_001, null), null],
  ['contradictory limits', OPERATOR, mint(8, 7), null],
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

it.each([
  [1_999, 'too_small'],
  [0, 'too_small'],
  [2_000, null],
  [2_001, 'not_whole_sats'],
  [9_999, 'not_whole_sats'],
  [10_000, null],
  [10_001, 'too_large'],
  [Number.MAX_SAFE_INTEGER, 'too_large'],
])('amountProblem of %i msat is %s', (amountMsat, problem) => {
  expect(amountProblem(amountMsat, { minMsat: 2_000, maxMsat: 10_000 })).toBe(problem);
});

it.each([
  ['For {address}, {address}!', 'For a@pay.example, a@pay.example!'],
  ['"$&" \\ {other} 🥜', '"$&" \\ {other} 🥜'],
])('lnurlMetadata of %j has the text and the address', (template, text) => {
  expect(JSON.parse(lnurlMetadata('a@pay.example', template))).toEqual([
    ['text/plain', text],
    ['text/identifier', 'a@pay.example'],
  ]);
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
