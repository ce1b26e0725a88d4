import { expect, it } from 'vitest';
import { parseCreatedQuote, parseQuoteObservation } from '../../../src/mints/quote-responses.ts';

it.each([
  // state, paid, issued, expected
  ['UNPAID', undefined, undefined, 'UNPAID'],
  ['PAID', undefined, undefined, 'PAID'],
  ['ISSUED', undefined, undefined, 'ISSUED'],
  ['PENDING', undefined, undefined, 'INFLIGHT'],
  // PENDING takes precedence over the amounts, which the mint may update later.
  ['PENDING', 0, 0, 'INFLIGHT'],
  // Amounts take precedence over the deprecated state.
  ['UNPAID', 21, 0, 'PAID'],
  ['ISSUED', 42, 21, 'PAID'],
  ['PAID', 21, 21, 'ISSUED'],
  // Amounts that are 0 or missing do not override the state.
  ['PAID', 0, 0, 'PAID'],
  ['ISSUED', 0, 21, 'ISSUED'],
  ['PAID', 21, undefined, 'PAID'],
  // Newer mints do not send the deprecated state.
  [undefined, 0, 0, 'UNPAID'],
  [undefined, 21, 0, 'PAID'],
  [undefined, 21, 21, 'ISSUED'],
  // Unknown values.
  [undefined, undefined, undefined, null],
  [undefined, 0, 21, null],
  ['paid', undefined, undefined, 'PAID'],
  ['Unpaid', undefined, undefined, 'UNPAID'],
  // Mints that write whole numbers as text.
  [undefined, '21', '0', 'PAID'],
  [undefined, '21.5', '0', null],
  ['SOMETHING', 0, 0, null],
])(
  'parseQuoteObservation reads state %s, amount_paid %s and amount_issued %s as %s',
  (state, paid, issued, expected) => {
    const response = { quote: 'q', state, amount_paid: paid, amount_issued: issued };
    expect(parseQuoteObservation(response)?.state ?? null).toBe(expected);
  },
);

it.each([
  // state, paid, expected
  [undefined, false, 'UNPAID'],
  [undefined, true, 'PAID'],
  ['ISSUED', true, 'ISSUED'],
  ['SOMETHING', true, 'PAID'],
  ['SOMETHING', false, null],
  [undefined, 'no', null],
])('reads state %s and the older field paid %s as %s', (state, paid, expected) => {
  const response = { quote: 'q', request: 'lnbc1', state, paid };
  expect(parseQuoteObservation(response)?.state ?? null).toBe(expected);
  expect(parseCreatedQuote(response)?.state).toBe(expected);
});
