import { expect, it } from 'vitest';
import { isPastGrace, nextCheck } from '../../src/domain/poll-schedule.ts';
import type { QuoteState } from '../../src/domain/quote.ts';
import { quoteOutlook } from '../../src/domain/quote-outlook.ts';

const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;
const CREATED_AT_MS = 1_750_000_000_000;
const EXPIRES_AT_MS = CREATED_AT_MS + HOUR_MS;
const PAID_AT_MS = CREATED_AT_MS + 5_000;

it('an invoice can be paid until it ends, to the millisecond', () => {
  expect(outlook('UNPAID', EXPIRES_AT_MS - 1)).toEqual({
    kind: 'awaiting_payment',
    untilMs: EXPIRES_AT_MS,
  });
});

it('a late payment is waited for until a day after that', () => {
  expect(outlook('UNPAID', EXPIRES_AT_MS)).toEqual({
    kind: 'awaiting_late_payment',
    untilMs: EXPIRES_AT_MS + DAY_MS,
  });
});

it('a mint that says an expiry in the past does not shorten that', () => {
  const quote = { ...quoteOf('UNPAID'), expiresAtMs: CREATED_AT_MS - 5 * DAY_MS };
  expect(quoteOutlook(quote, CREATED_AT_MS)).toEqual({
    kind: 'awaiting_late_payment',
    untilMs: CREATED_AT_MS + DAY_MS,
  });
});

it('a payment is waited for to be collected for a week', () => {
  expect(outlook('PAID', PAID_AT_MS + 1)).toEqual({
    kind: 'awaiting_collection',
    untilMs: PAID_AT_MS + 7 * DAY_MS,
  });
});

it.each([
  ['EXPIRED', null, 'given_up'],
  ['INFLIGHT', CREATED_AT_MS, 'being_collected'],
  ['INFLIGHT', null, 'left_uncollected'],
  ['PAID', null, 'left_uncollected'],
  ['ISSUED', null, 'collected'],
] as const)('%s with the next check at %s is %s', (state, nextCheckAtMs, kind) => {
  expect(quoteOutlook({ ...quoteOf(state), nextCheckAtMs }, PAID_AT_MS)).toEqual({ kind });
});

it('what it says is what the schedule does', () => {
  const unpaid = { ...quoteOf('UNPAID'), paidAtMs: null };
  const late = quoteOutlook(unpaid, EXPIRES_AT_MS);
  const paid = quoteOutlook(quoteOf('PAID'), PAID_AT_MS);
  if (!('untilMs' in late && 'untilMs' in paid)) {
    throw new Error('neither has an end');
  }
  const isGivenUp = (checkedAtMs: number) =>
    isPastGrace({ ...unpaid, checkedAtMs }, checkedAtMs + HOUR_MS);
  const isWatched = (quote: ReturnType<typeof quoteOf>, checkedAtMs: number) =>
    nextCheck({ ...quote, checkedAtMs }, checkedAtMs + HOUR_MS, false) !== null;
  expect(isGivenUp(late.untilMs - 1)).toBe(false);
  expect(isGivenUp(late.untilMs)).toBe(true);
  expect(isWatched(quoteOf('PAID'), paid.untilMs - 1)).toBe(true);
  expect(isWatched(quoteOf('PAID'), paid.untilMs)).toBe(false);
});

function outlook(state: QuoteState, nowMs: number) {
  return quoteOutlook(quoteOf(state), nowMs);
}

function quoteOf(state: QuoteState) {
  return {
    state,
    createdAtMs: CREATED_AT_MS,
    expiresAtMs: EXPIRES_AT_MS,
    paidAtMs: state === 'UNPAID' || state === 'EXPIRED' ? null : PAID_AT_MS,
    nextCheckAtMs: CREATED_AT_MS + 4_000,
    checkedAtMs: null,
  };
}
