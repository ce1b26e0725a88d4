import { expect, it } from 'vitest';
import type { QuoteState } from '../../src/domain/quote.ts';
import { quoteOutlook } from '../../src/domain/quote-outlook.ts';

const EXPIRES_AT_MS = 1_750_000_000_000;
const WATCH_UNTIL_MS = EXPIRES_AT_MS + 86_400_000;

it('an unpaid quote can be paid until its invoice expires, to the millisecond', () => {
  expect(outlook('UNPAID', EXPIRES_AT_MS - 1)).toEqual({
    kind: 'awaiting_payment',
    untilMs: EXPIRES_AT_MS,
  });
});

it.each([
  ['UNPAID', 'awaiting_late_payment'],
  ['PAID', 'awaiting_collection'],
] as const)('%s is %s for as long as it is watched', (state, kind) => {
  expect(outlook(state, EXPIRES_AT_MS)).toEqual({ kind, untilMs: WATCH_UNTIL_MS });
});

it.each([
  ['UNPAID', null, 'given_up'],
  ['EXPIRED', null, 'given_up'],
  ['INFLIGHT', WATCH_UNTIL_MS, 'being_collected'],
  ['INFLIGHT', null, 'left_uncollected'],
  ['PAID', null, 'left_uncollected'],
  ['ISSUED', null, 'collected'],
] as const)('%s that is watched until %s is %s', (state, watchUntilMs, kind) => {
  const quote = { state, expiresAtMs: EXPIRES_AT_MS, watchUntilMs };
  expect(quoteOutlook(quote, EXPIRES_AT_MS)).toEqual({ kind });
});

function outlook(state: QuoteState, nowMs: number) {
  const quote = { state, expiresAtMs: EXPIRES_AT_MS, watchUntilMs: WATCH_UNTIL_MS };
  return quoteOutlook(quote, nowMs);
}
