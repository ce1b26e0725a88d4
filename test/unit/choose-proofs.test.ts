import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sumOfAmounts } from '../../src/mints/ecash.ts';
import { chooseProofs } from '../../src/usernames/treasury.ts';

/** Which proofs of the treasury are withdrawn. */

const proofs = fc
  .array(fc.integer({ min: 0, max: 12 }), { maxLength: 12 })
  .map((exponents) => exponents.sort((a, b) => b - a).map((each) => ({ amount: 2 ** each })));

it('makes up an exact amount if any of the proofs do, and takes each once', () => {
  fc.assert(
    fc.property(proofs, fc.integer(), (all, choice) => {
      const some = all.filter((_, index) => (choice >> index) % 2 !== 0);
      const chosen = chooseProofs(all, sumOfAmounts(some));
      expect(sumOfAmounts(chosen)).toBe(sumOfAmounts(some));
      expect(new Set(chosen).size).toBe(chosen.length);
      expect(all).toEqual(expect.arrayContaining(chosen));
    }),
  );
});

it('stays below an amount that the proofs do not make up', () => {
  const all = [{ amount: 8 }, { amount: 2 }, { amount: 2 }];
  expect(sumOfAmounts(chooseProofs(all, 5))).toBe(4);
  expect(sumOfAmounts(chooseProofs(all, 13))).toBe(12);
});
