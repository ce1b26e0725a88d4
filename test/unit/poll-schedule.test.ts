import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { computeWatchUntilMs, type QuoteStatus } from '../../src/quotes/quote-state.ts';
import {
  computePollIntervalMs,
  computePollUrgency,
  type PollContext,
  shouldEndWatch,
} from '../../src/watcher/poll-schedule.ts';

const CREATED = 1_800_000_000_000;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const EXPIRES = CREATED + HOUR;

describe('computePollUrgency', () => {
  it.each([
    ['just created', 0, 4 * SECOND, 20 * SECOND],
    ['five minutes old', 5 * MINUTE, 15 * SECOND, MINUTE],
    ['half an hour old', 30 * MINUTE, MINUTE, 5 * MINUTE],
    ['expired for a minute', HOUR + MINUTE, MINUTE, 2 * MINUTE],
    ['expired for half an hour', 1.5 * HOUR, 10 * MINUTE, 20 * MINUTE],
    ['expired for hours', 6 * HOUR, 2 * HOUR, 4 * HOUR],
  ])('polls an unpaid quote that is %s', (_age, ageMs, everyMs, coveredEveryMs) => {
    expect(intervalOf(unpaid(), CREATED + ageMs)).toBe(everyMs);
    expect(intervalOf(unpaid(), CREATED + ageMs, { isSubscribed: true })).toBe(coveredEveryMs);
  });

  it.each([
    ['just now', 0, 15 * SECOND, 45 * SECOND],
    ['half an hour ago', 30 * MINUTE, MINUTE, 2 * MINUTE],
    ['hours ago', 5 * HOUR, 10 * MINUTE, 30 * MINUTE],
    ['days ago', 5 * DAY, 2 * HOUR, 4 * HOUR],
  ])('polls a quote that was paid %s', (_when, sincePaymentMs, everyMs, coveredEveryMs) => {
    const quote = unpaid({ state: 'PAID', paidAtMs: CREATED });
    const nowMs = CREATED + sincePaymentMs;
    expect(intervalOf(quote, nowMs)).toBe(everyMs);
    expect(intervalOf(quote, nowMs, { isSubscribed: true })).toBe(coveredEveryMs);
  });

  it.each([
    [0, 3 * SECOND],
    [3 * SECOND, 3 * SECOND],
    [10 * MINUTE, 10 * MINUTE],
    [5 * DAY, HOUR],
  ])(
    'polls a quote that had been INFLIGHT for %i ms at an interval that grows',
    (stateAgeAtPollMs, everyMs) => {
      const quote = unpaid({ state: 'INFLIGHT', paidAtMs: CREATED });
      for (const isCovered of [false, true]) {
        expect(
          intervalOf(quote, CREATED + 5 * DAY, { stateAgeAtPollMs, isSubscribed: isCovered }),
        ).toBe(everyMs);
      }
    },
  );

  it('polls a young quote often even if its expiry is long past, as with a wrong clock', () => {
    const quote = unpaid({ expiresAtMs: CREATED - DAY });
    expect(intervalOf(quote, CREATED + MINUTE / 2)).toBe(4 * SECOND);
    expect(intervalOf(quote, CREATED + 5 * MINUTE)).toBe(15 * SECOND);
  });

  it('polls an unpaid quote once just after its expiry, however recently it was polled', () => {
    const justAfter = EXPIRES + 5 * SECOND;
    const sincePollMs = SECOND;
    const isDueAt = (nowMs: number) => urgencyOf(unpaid(), nowMs, { sincePollMs }) >= 1;
    expect(isDueAt(justAfter - 1)).toBe(false);
    expect(isDueAt(justAfter)).toBe(true);
    expect(isDueAt(justAfter + sincePollMs)).toBe(false);
  });

  it('ranks first the quote that has waited for more of its intervals', () => {
    const nowMs = CREATED + 2 * HOUR;
    const paid = (paidAtMs: number) => unpaid({ state: 'PAID', paidAtMs });
    const older = urgencyOf(paid(CREATED), nowMs, { sincePollMs: 30 * MINUTE });
    expect(older).toBeGreaterThan(urgencyOf(paid(nowMs), nowMs, { sincePollMs: 30 * SECOND }));
    expect(older).toBeLessThan(urgencyOf(paid(nowMs), nowMs, { sincePollMs: 60 * SECOND }));
  });

  it('grows with the wait, makes every quote due within half a day, and never polls covered quotes more', () => {
    const wait = fc.integer({ min: 0, max: 2 * DAY });
    fc.assert(
      fc.property(anyQuote, anyAge, wait, wait, (quote, ageMs, sincePollMs, moreMs) => {
        const nowMs = CREATED + ageMs;
        const alone = urgencyOf(quote, nowMs, { sincePollMs });
        const covered = urgencyOf(quote, nowMs, { sincePollMs, isSubscribed: true });
        expect(covered).toBeLessThanOrEqual(alone);
        expect(
          urgencyOf(quote, nowMs, { sincePollMs: sincePollMs + moreMs }),
        ).toBeGreaterThanOrEqual(alone);
        expect(
          urgencyOf(quote, nowMs, { sincePollMs: DAY / 2, isSubscribed: true }),
        ).toBeGreaterThanOrEqual(1);
      }),
    );
  });

  it('polls an unpaid quote fewer than 150 times in all', () => {
    const quote = unpaid();
    let polls = 0;
    let polledAtMs = CREATED;
    for (let nowMs = CREATED; nowMs <= EXPIRES + DAY; nowMs += SECOND) {
      if (urgencyOf(quote, nowMs, { sincePollMs: nowMs - polledAtMs }) >= 1) {
        polls += 1;
        polledAtMs = nowMs;
      }
    }
    expect(polls).toBeGreaterThan(100);
    expect(polls).toBeLessThan(150);
  });
});

const PAID = unpaid({ state: 'PAID', paidAtMs: CREATED });

it.each([
  ['an unpaid quote', unpaid(), EXPIRES + DAY],
  ['an expiry in the past', unpaid({ expiresAtMs: 1 }), CREATED + DAY],
  ['a paid quote', PAID, CREATED + 7 * DAY],
  ['an in-flight quote', { ...PAID, state: 'INFLIGHT' } as const, CREATED + 7 * DAY],
  ['a collected quote', { ...PAID, state: 'ISSUED' } as const, null],
  ['an expired quote', unpaid({ state: 'EXPIRED' }), null],
])('computeWatchUntilMs for %s', (_case, quote, untilMs) => {
  expect(computeWatchUntilMs(quote)).toBe(untilMs);
});

// A clock that jumps ahead and back must not end a watch.
it.each([
  [unpaid(), EXPIRES + 9 * DAY, HOUR - 1, false],
  [unpaid(), EXPIRES + 9 * DAY, HOUR, true],
  [unpaid(), EXPIRES + DAY, HOUR, true],
  [unpaid(), EXPIRES + DAY - 1, 400 * DAY, false],
  [PAID, CREATED + 7 * DAY - 1, 400 * DAY, false],
])(
  'shouldEndWatch for %j at %i, %i ms after the first late response: %s',
  (quote, nowMs, sinceMs, ends) => {
    expect(shouldEndWatch(quote, nowMs, sinceMs)).toBe(ends);
  },
);

const POLLED_JUST_NOW: PollContext = { sincePollMs: 0, stateAgeAtPollMs: 0, isSubscribed: false };

const anyAge = fc.integer({ min: -DAY, max: 30 * DAY });

const anyQuote = fc.record({
  state: fc.constantFrom('UNPAID', 'INFLIGHT', 'PAID'),
  createdAtMs: fc.constant(CREATED),
  expiresAtMs: fc.integer({ min: CREATED - DAY, max: CREATED + 30 * DAY }),
  paidAtMs: fc.option(fc.integer({ min: CREATED, max: CREATED + 30 * DAY })),
});

function unpaid(changes: Partial<QuoteStatus> = {}): QuoteStatus {
  return {
    state: 'UNPAID',
    createdAtMs: CREATED,
    expiresAtMs: EXPIRES,
    paidAtMs: null,
    ...changes,
  };
}

function urgencyOf(quote: QuoteStatus, nowMs: number, history: Partial<PollContext>): number {
  return computePollUrgency(quote, nowMs, { ...POLLED_JUST_NOW, ...history });
}

/** Returns the interval between polls of a quote of this age. */
function intervalOf(quote: QuoteStatus, nowMs: number, history: Partial<PollContext> = {}): number {
  return computePollIntervalMs(quote, nowMs, { ...POLLED_JUST_NOW, ...history });
}
