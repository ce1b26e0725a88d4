import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sumAmounts } from '../../../src/usernames/ecash/proofs.ts';
import { selectProofs } from '../../../src/usernames/treasury.ts';

const anyProofs = fc
  .array(fc.integer({ min: 0, max: 12 }), { maxLength: 12 })
  .map((exponents) =>
    exponents.sort((a, b) => b - a).map((exponent) => ({ amount: 2 ** exponent })),
  );

it('selectProofs selects distinct proofs of exactly the amount if such proofs exist', () => {
  fc.assert(
    fc.property(anyProofs, fc.integer(), (available, bitmask) => {
      const subset = available.filter((_, index) => (bitmask >> index) % 2 !== 0);
      const selected = selectProofs(available, sumAmounts(subset));
      expect(sumAmounts(selected)).toBe(sumAmounts(subset));
      expect(new Set(selected).size).toBe(selected.length);
      expect(available).toEqual(expect.arrayContaining(selected));
    }),
  );
});

it('selectProofs selects less than the amount if no proofs sum to it', () => {
  const available = [{ amount: 8 }, { amount: 2 }, { amount: 2 }];
  expect(sumAmounts(selectProofs(available, 5))).toBe(4);
  expect(sumAmounts(selectProofs(available, 13))).toBe(12);
});
