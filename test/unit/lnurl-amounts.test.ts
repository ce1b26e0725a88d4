import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { amountProblem, lnurlMetadata, sendableRange, toSat } from '../../src/domain/lnurl.ts';
import type { MintInfo } from '../../src/domain/mint-info.ts';

const OPERATOR = { minMsat: 1_000, maxMsat: 1_000_000_000 };

describe('what may be sent', () => {
  it.each([
    ['a mint that is not known', null, [1_000, 1_000_000_000]],
    ['a mint without limits', mint(null, null), [1_000, 1_000_000_000]],
    ['a mint that wants more', mint(5, null), [5_000, 1_000_000_000]],
    ['a mint that takes less', mint(null, 500), [1_000, 500_000]],
    ['a mint of one amount', mint(7, 7), [7_000, 7_000]],
    ['a mint that takes anything', mint(1, 10_000_000), [1_000, 1_000_000_000]],
  ])('to %s', (_case, info, [minMsat, maxMsat]) => {
    expect(sendableRange(OPERATOR, info)).toEqual({ minMsat, maxMsat });
  });

  it('is in whole sats, within what the operator says', () => {
    const range = sendableRange({ minMsat: 1, maxMsat: 10_999 }, null);
    expect(range).toEqual({ minMsat: 1_000, maxMsat: 10_000 });
  });

  it.each([
    ['a mint wants more than the operator', OPERATOR, mint(1_000_001, null)],
    ['a mint contradicts itself', OPERATOR, mint(8, 7)],
    ['the operator leaves no whole sat', { minMsat: 1_001, maxMsat: 1_999 }, null],
  ])('is nothing where %s', (_case, operator, info) => {
    expect(sendableRange(operator, info)).toBeNull();
  });

  it('is never more than either allows', () => {
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
});

describe('an amount', () => {
  const range = { minMsat: 2_000, maxMsat: 10_000 };

  it.each([
    [1_999, 'too_small'],
    [0, 'too_small'],
    [2_000, null],
    [2_001, 'not_whole_sats'],
    [9_999, 'not_whole_sats'],
    [10_000, null],
    [10_001, 'too_large'],
    [Number.MAX_SAFE_INTEGER, 'too_large'],
  ])('of %i msat: %s', (amountMsat, problem) => {
    expect(amountProblem(amountMsat, range)).toBe(problem);
  });

  it('is the same in sats and millisatoshis', () => {
    expect(toSat(21_000)).toBe(21);
  });
});

describe('the metadata', () => {
  it('is one text and the address', () => {
    expect(JSON.parse(lnurlMetadata('alice@pay.example', 'For {address}, {address}!'))).toEqual([
      ['text/plain', 'For alice@pay.example, alice@pay.example!'],
      ['text/identifier', 'alice@pay.example'],
    ]);
  });

  it('holds any text as it is, quotation marks and dollars too', () => {
    const text = '"$&" \\ {other} 🥜';
    expect(JSON.parse(lnurlMetadata('a@b', text))[0]).toEqual(['text/plain', text]);
  });
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
    meltsBolt11Sat: false,
    takesDescription: false,
    takesDescriptionHash: false,
  };
}
