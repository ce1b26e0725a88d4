import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { computeWatchUntilMs, type QuoteStatus } from '../../../src/quotes/quote-state.ts';
import {
  computeNextPoll,
  computePollIntervalMs,
  isWatchPeriodOver,
  type PollContext,
} from '../../../src/watcher/poll-schedule.ts';

const CREATED_MS = 1_800_000_000_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const WEEK_MS = 7 * DAY_MS;
const EXPIRES_MS = CREATED_MS + HOUR_MS;
const UNPAID = createQuote();
const PAID = createPaid('PAID');

describe('computePollIntervalMs', () => {
  it.each([
    ['for an unpaid quote that is five minutes old', UNPAID, 5 * MINUTE_MS, 15 * SECOND_MS],
    ['for an unpaid quote that expired 15 minutes ago', UNPAID, 1.25 * HOUR_MS, 5 * MINUTE_MS],
    ['for a quote that was paid just now', PAID, 0, 15 * SECOND_MS],
    ['for a quote that was paid five hours ago', PAID, 5 * HOUR_MS, 10 * MINUTE_MS],
  ])('is five times as long with a subscription %s', (_case, quote, ageMs, intervalMs) => {
    expect(getInterval(quote, CREATED_MS + ageMs)).toBe(intervalMs);
    expect(getInterval(quote, CREATED_MS + ageMs, { isCovered: true })).toBe(5 * intervalMs);
  });

  it.each([
    [0, 3 * SECOND_MS],
    [10 * MINUTE_MS, 10 * MINUTE_MS],
  ])('doubles the time of %i ms that a quote has been INFLIGHT', (stateAgeAtPollMs, expectedMs) => {
    const quote = createPaid('INFLIGHT');
    for (const isCovered of [false, true]) {
      const context = { stateAgeAtPollMs, isCovered };
      expect(getInterval(quote, CREATED_MS + 5 * DAY_MS, context)).toBe(expectedMs);
    }
  });

  it('ignores an expiry in the past while the quote is young, because clocks may differ', () => {
    const quote = createQuote({ expiresAtMs: CREATED_MS - DAY_MS });
    expect(getInterval(quote, CREATED_MS + MINUTE_MS / 2)).toBe(4 * SECOND_MS);
    expect(getInterval(quote, CREATED_MS + 5 * MINUTE_MS)).toBe(15 * SECOND_MS);
  });
});

describe('computeNextPoll', () => {
  it('makes an unpaid quote due 5 s after its expiry, even if it was polled a second ago', () => {
    const dueAtMs = EXPIRES_MS + 5 * SECOND_MS;
    const getNext = (nowMs: number, sincePollMs: number) =>
      computeNextPoll(UNPAID, nowMs, { ...DEFAULT_CONTEXT, sincePollMs });
    const expected = { dueInMs: SECOND_MS, isUrgent: true };
    expect(getNext(dueAtMs - SECOND_MS, SECOND_MS)).toEqual(expected);
    // Once the quote was polled after the expiry, the usual intervals apply.
    expect(getNext(dueAtMs + SECOND_MS, SECOND_MS)).toEqual({
      dueInMs: MINUTE_MS - SECOND_MS,
      isUrgent: false,
    });
  });

  it('does not postpone a poll that was due and failed', () => {
    const lastPollAtMs = EXPIRES_MS + 30 * MINUTE_MS;
    const getDueAtMs = (nowMs: number) =>
      nowMs +
      computeNextPoll(UNPAID, nowMs, { ...DEFAULT_CONTEXT, sincePollMs: nowMs - lastPollAtMs })
        .dueInMs;
    expect(getDueAtMs(lastPollAtMs)).toBe(lastPollAtMs + 10 * MINUTE_MS);
    expect(getDueAtMs(lastPollAtMs + 10 * MINUTE_MS)).toBe(lastPollAtMs + 10 * MINUTE_MS);
  });

  it('makes unpaid quotes urgent for 80 s, unless a subscription covers them', () => {
    const isUrgent = (ageMs: number, isCovered = false) =>
      computeNextPoll(UNPAID, CREATED_MS + ageMs, { ...DEFAULT_CONTEXT, isCovered }).isUrgent;
    const endMs = 81 * SECOND_MS;
    expect([isUrgent(0), isUrgent(endMs - SECOND_MS)]).toEqual([true, true]);
    expect([isUrgent(endMs), isUrgent(0, true)]).toEqual([false, false]);
  });

  it('makes every quote due within four hours of its last poll, and no later without a subscription', () => {
    const wait = fc.integer({ min: 0, max: 2 * DAY_MS });
    fc.assert(
      fc.property(anyQuote, anyAge, wait, (quote, ageMs, sincePollMs) => {
        const getDueInMs = (isCovered: boolean) =>
          computeNextPoll(quote, CREATED_MS + ageMs, { ...DEFAULT_CONTEXT, sincePollMs, isCovered })
            .dueInMs;
        expect(getDueInMs(true)).toBeLessThanOrEqual(4 * HOUR_MS - sincePollMs);
        expect(getDueInMs(false)).toBeLessThanOrEqual(getDueInMs(true));
      }),
    );
  });
});

it.each([
  ['a day after the expiry', UNPAID, EXPIRES_MS + DAY_MS],
  ['a day after the creation', createQuote({ expiresAtMs: 1 }), CREATED_MS + DAY_MS],
  ['a week after the payment', PAID, CREATED_MS + WEEK_MS],
  ['a week after the payment', createPaid('INFLIGHT'), CREATED_MS + WEEK_MS],
  ['null', createPaid('ISSUED'), null],
  ['null', createQuote({ state: 'EXPIRED' }), null],
])('computeWatchUntilMs returns %s for %j', (_case, quote, watchUntilMs) => {
  expect(computeWatchUntilMs(quote)).toBe(watchUntilMs);
});

it.each([
  ['a day after the expiry', UNPAID, EXPIRES_MS + DAY_MS, false],
  ['a week after the payment', PAID, CREATED_MS + WEEK_MS, false],
  ['10 minutes after the expiry if crowded', UNPAID, EXPIRES_MS + 10 * MINUTE_MS, true],
  ['a week after the payment even if crowded', PAID, CREATED_MS + WEEK_MS, true],
])('isWatchPeriodOver returns true %s', (_case, quote, untilMs, isCrowded) => {
  expect(isWatchPeriodOver(quote, untilMs - 1, isCrowded)).toBe(false);
  expect(isWatchPeriodOver(quote, untilMs, isCrowded)).toBe(true);
});

const DEFAULT_CONTEXT: PollContext = { sincePollMs: 0, stateAgeAtPollMs: 0, isCovered: false };

const anyAge = fc.integer({ min: -DAY_MS, max: 30 * DAY_MS });

const anyQuote = fc.record({
  state: fc.constantFrom('UNPAID', 'INFLIGHT', 'PAID'),
  createdAtMs: fc.constant(CREATED_MS),
  expiresAtMs: fc.integer({ min: CREATED_MS - DAY_MS, max: CREATED_MS + 30 * DAY_MS }),
  paidAtMs: fc.option(fc.integer({ min: CREATED_MS, max: CREATED_MS + 30 * DAY_MS })),
});

function createQuote(changes: Partial<QuoteStatus> = {}): QuoteStatus {
  return {
    state: 'UNPAID',
    createdAtMs: CREATED_MS,
    expiresAtMs: EXPIRES_MS,
    paidAtMs: null,
    ...changes,
  };
}

function createPaid(state: QuoteStatus['state']): QuoteStatus {
  return createQuote({ state, paidAtMs: CREATED_MS });
}

function getInterval(
  quote: QuoteStatus,
  nowMs: number,
  context: Partial<PollContext> = {},
): number {
  return computePollIntervalMs(quote, nowMs, { ...DEFAULT_CONTEXT, ...context });
}
