import { expect, it } from 'vitest';
import { parseObservation } from '../../src/mints/quote-answer.ts';

it.each([
  // state, paid, issued, expected
  ['UNPAID', undefined, undefined, 'UNPAID'],
  ['PAID', undefined, undefined, 'PAID'],
  ['ISSUED', undefined, undefined, 'ISSUED'],
  ['PENDING', undefined, undefined, 'INFLIGHT'],
  ['UNPAID', 0, 0, 'UNPAID'],
  ['PAID', 21, 0, 'PAID'],
  ['ISSUED', 21, 21, 'ISSUED'],
  // While it signs, a mint's amounts lag behind.
  ['PENDING', 0, 0, 'INFLIGHT'],
  ['PENDING', 21, 0, 'INFLIGHT'],
  // The amounts count for more than the deprecated state.
  ['UNPAID', 21, 0, 'PAID'],
  ['ISSUED', 42, 21, 'PAID'],
  ['PAID', 21, 21, 'ISSUED'],
  // Amounts of zero say nothing that the state does not say better.
  ['PAID', 0, 0, 'PAID'],
  ['ISSUED', 0, 21, 'ISSUED'],
  ['PAID', 21, undefined, 'PAID'],
  // A mint that has dropped the state.
  [undefined, 0, 0, 'UNPAID'],
  [undefined, 21, 0, 'PAID'],
  [undefined, 21, 21, 'ISSUED'],
  // Nothing that we know.
  [undefined, undefined, undefined, null],
  [undefined, 0, 21, null],
  ['paid', undefined, undefined, null],
  ['EXPIRED', undefined, undefined, null],
  ['SOMETHING', 0, 0, null],
])('a quote of state %s with %s paid and %s issued is %s', (state, paid, issued, expected) => {
  const answer = { quote: 'q', state, amount_paid: paid, amount_issued: issued };
  expect(parseObservation(answer)?.state ?? null).toBe(expected);
});
