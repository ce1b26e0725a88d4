import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseExactly, chooseWorth, mostWorthSat } from '../../src/domain/choose-proofs.ts';
import { sumOfAmounts } from '../../src/domain/ecash.ts';

/** Which proofs of the treasury are spent. */

const proofs = fc
  .array(fc.integer({ min: 0, max: 12 }), { maxLength: 12 })
  .map((exponents) => exponents.map((exponent) => ({ amount: 2 ** exponent })));

const halfSatEach = (chosen: readonly object[]) => Math.ceil(chosen.length / 2);
const threeSatEach = (chosen: readonly object[]) => chosen.length * 3;

describe('an exact amount', () => {
  it('is found wherever some of the proofs make it up, and each is taken once', () => {
    fc.assert(
      fc.property(proofs, fc.integer(), (all, choice) => {
        const some = all.filter((_, index) => (choice >> index) % 2 !== 0);
        const chosen = chooseExactly(all, sumOfAmounts(some));
        expect(chosen).not.toBeNull();
        expect(sumOfAmounts(chosen ?? [])).toBe(sumOfAmounts(some));
        expect(new Set(chosen).size).toBe(chosen?.length);
        expect(all).toEqual(expect.arrayContaining(chosen ?? []));
      }),
    );
  });

  it('is not found where it is not there', () => {
    const all = [{ amount: 8 }, { amount: 2 }, { amount: 2 }];
    expect(chooseExactly(all, 5)).toBeNull();
    expect(chooseExactly(all, 13)).toBeNull();
  });
});

describe('an amount after the fee', () => {
  it('is made up of the largest, and of no more than it takes', () => {
    fc.assert(
      fc.property(proofs, fc.integer({ min: 1, max: 5_000 }), (all, amountSat) => {
        const chosen = chooseWorth(all, amountSat, halfSatEach);
        const worthSat = (some: readonly { amount: number }[]) =>
          sumOfAmounts(some) - halfSatEach(some);
        expect(chosen === null).toBe(mostWorthSat(all, halfSatEach) < amountSat);
        if (chosen !== null) {
          expect(worthSat(chosen)).toBeGreaterThanOrEqual(amountSat);
          expect(worthSat(chosen.slice(0, -1))).toBeLessThan(amountSat);
        }
      }),
    );
  });

  it('leaves out the smallest where they cost more than they are worth', () => {
    const all = [{ amount: 1 }, { amount: 64 }, { amount: 2 }, { amount: 32 }];
    expect(mostWorthSat(all, threeSatEach)).toBe(90);
    expect(chooseWorth(all, 90, threeSatEach)).toEqual([{ amount: 64 }, { amount: 32 }]);
    expect(mostWorthSat([{ amount: 1 }], threeSatEach)).toBe(0);
  });
});
