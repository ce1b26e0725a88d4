import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sumAmounts } from '../../src/mints/ecash.ts';
import { selectProofs } from '../../src/usernames/treasury.ts';

const proofs = fc
  .array(fc.integer({ min: 0, max: 12 }), { maxLength: 12 })
  .map((exponents) => exponents.sort((a, b) => b - a).map((each) => ({ amount: 2 ** each })));

it('returns an exact amount if some proofs sum to it, using each once', () => {
  fc.assert(
    fc.property(proofs, fc.integer(), (all, choice) => {
      const some = all.filter((_, index) => (choice >> index) % 2 !== 0);
      const chosen = selectProofs(all, sumAmounts(some));
      expect(sumAmounts(chosen)).toBe(sumAmounts(some));
      expect(new Set(chosen).size).toBe(chosen.length);
      expect(all).toEqual(expect.arrayContaining(chosen));
    }),
  );
});

it('stays below an amount that no proofs sum to', () => {
  const all = [{ amount: 8 }, { amount: 2 }, { amount: 2 }];
  expect(sumAmounts(selectProofs(all, 5))).toBe(4);
  expect(sumAmounts(selectProofs(all, 13))).toBe(12);
});
