import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isPastGrace, nextCheckAtMs, type ScheduledQuote } from '../../src/domain/poll-schedule.ts';

const CREATED = 1_800_000_000_000;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const EXPIRES = CREATED + HOUR;

describe('the next look at a quote', () => {
  it.each([
    ['just issued', 0, 4 * SECOND, 20 * SECOND],
    ['a few minutes old', 5 * MINUTE, 15 * SECOND, MINUTE],
    ['half an hour old', 30 * MINUTE, MINUTE, 5 * MINUTE],
  ])('that is %s', (_case, ageMs, alone, covered) => {
    expect(afterUnpaid(CREATED + ageMs)).toBe(alone);
    expect(afterUnpaid(CREATED + ageMs, true)).toBe(covered);
  });

  it('that lives long gets rarer', () => {
    const quote = unpaid({ expiresAtMs: CREATED + 10 * DAY });
    const now = CREATED + 2 * DAY;
    expect(nextCheckAtMs(quote, now, false)).toBe(now + 10 * MINUTE);
    expect(nextCheckAtMs(quote, now, true)).toBe(now + 30 * MINUTE);
  });

  it('is once just after its invoice ends, whatever the pace', () => {
    const justAfter = EXPIRES + 5 * SECOND;
    for (const isCovered of [false, true]) {
      const now = EXPIRES - SECOND;
      expect(nextCheckAtMs(unpaid(), now, isCovered)).toBe(justAfter);
    }
    expect(nextCheckAtMs(unpaid(), EXPIRES, false)).toBe(justAfter);
  });

  it.each([
    ['minutes', 5 * SECOND, MINUTE, 2 * MINUTE],
    ['the first hour', 30 * MINUTE, 10 * MINUTE, 20 * MINUTE],
    ['a day', 5 * HOUR, 2 * HOUR, 4 * HOUR],
  ])('that ended unpaid grows rarer: %s', (_case, sinceMs, alone, covered) => {
    expect(afterUnpaid(EXPIRES + sinceMs)).toBe(alone);
    expect(afterUnpaid(EXPIRES + sinceMs, true)).toBe(covered);
  });

  it('that is young is often, even where a mint’s clock says that it has ended', () => {
    const quote = unpaid({ expiresAtMs: CREATED - DAY });
    expect(nextCheckAtMs(quote, CREATED, false)).toBe(CREATED + 4 * SECOND);
    expect(nextCheckAtMs(quote, CREATED + 5 * MINUTE, false)).toBe(
      CREATED + 5 * MINUTE + 15 * SECOND,
    );
  });

  it.each([
    ['INFLIGHT, at once', 'INFLIGHT', 0, 3 * SECOND, 3 * SECOND],
    ['INFLIGHT hours after its payment', 'INFLIGHT', 5 * HOUR, 3 * SECOND, 3 * SECOND],
    ['INFLIGHT for days', 'INFLIGHT', 5 * DAY, 30 * SECOND, 30 * SECOND],
    ['PAID, while wallets collect', 'PAID', 0, 20 * SECOND, MINUTE],
    ['PAID for half an hour', 'PAID', 30 * MINUTE, 5 * MINUTE, 15 * MINUTE],
    ['PAID for hours', 'PAID', 5 * HOUR, HOUR, 2 * HOUR],
    ['PAID for days', 'PAID', 5 * DAY, 6 * HOUR, 12 * HOUR],
  ] as const)('that is %s', (_case, state, sinceMs, alone, covered) => {
    const paidAtMs = CREATED + MINUTE;
    const now = paidAtMs + sinceMs;
    const quote = { ...unpaid(), state, paidAtMs };
    expect(nextCheckAtMs(quote, now, false)).toBe(now + alone);
    expect(nextCheckAtMs(quote, now, true)).toBe(now + covered);
  });

  it.each([
    ['was collected', { state: 'ISSUED', paidAtMs: CREATED }, CREATED],
    ['ended for good', { state: 'EXPIRED', paidAtMs: null }, CREATED],
    ['nobody collected in a week', { state: 'PAID', paidAtMs: CREATED }, CREATED + 7 * DAY],
    ['hung for a week', { state: 'INFLIGHT', paidAtMs: CREATED }, CREATED + 7 * DAY],
  ] as const)('that %s is never', (_case, changes, now) => {
    expect(nextCheckAtMs({ ...unpaid(), ...changes }, now, false)).toBeNull();
  });

  it('is always later, never beyond half a day, and never sooner for a socket', () => {
    fc.assert(
      fc.property(anyQuote, fc.integer({ min: -DAY, max: 30 * DAY }), (quote, ageMs) => {
        const now = CREATED + ageMs;
        const [alone, covered] = [false, true].map((each) => nextCheckAtMs(quote, now, each));
        expect(alone === null).toBe(covered === null);
        if (alone != null && covered != null) {
          expect(alone).toBeGreaterThan(now);
          expect(covered).toBeGreaterThanOrEqual(alone);
          expect(covered).toBeLessThanOrEqual(now + DAY / 2);
        }
      }),
    );
  });

  it('of an unpaid quote comes for a whole day after its end, in a bearable number', () => {
    let looks = 0;
    let now = CREATED;
    while (!isPastGrace(unpaid(), now)) {
      now = nextCheckAtMs(unpaid(), now, false) ?? Number.POSITIVE_INFINITY;
      looks += 1;
    }
    expect(now).toBeLessThan(EXPIRES + 2 * DAY);
    expect(looks).toBeLessThan(150);
  });
});

describe('the time in which a late payment is waited for', () => {
  it('is a day, to the millisecond', () => {
    expect(isPastGrace(unpaid(), EXPIRES + DAY - 1)).toBe(false);
    expect(isPastGrace(unpaid(), EXPIRES + DAY)).toBe(true);
  });

  it('is counted from its making where its expiry is long past, as by a mint with a wrong clock', () => {
    const odd = unpaid({ expiresAtMs: 3_600_000 });
    expect(isPastGrace(odd, CREATED + DAY - 1)).toBe(false);
    expect(isPastGrace(odd, CREATED + DAY)).toBe(true);
  });
});

const anyQuote = fc.record({
  state: fc.constantFrom('UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'),
  createdAtMs: fc.constant(CREATED),
  expiresAtMs: fc.integer({ min: CREATED - DAY, max: CREATED + 30 * DAY }),
  paidAtMs: fc.option(fc.integer({ min: CREATED, max: CREATED + 30 * DAY })),
});

function unpaid(changes: Partial<ScheduledQuote> = {}): ScheduledQuote {
  return {
    state: 'UNPAID',
    createdAtMs: CREATED,
    expiresAtMs: EXPIRES,
    paidAtMs: null,
    ...changes,
  };
}

/** How long after `now` an unpaid quote is looked at again. */
function afterUnpaid(now: number, isCovered = false): number {
  return (nextCheckAtMs(unpaid(), now, isCovered) ?? Number.NaN) - now;
}
