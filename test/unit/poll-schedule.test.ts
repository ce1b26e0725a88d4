import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { orderOfTurn } from '../../src/domain/check-turns.ts';
import {
  CHECK_CLASS,
  type CheckClass,
  firstCheck,
  isPastGrace,
  nextCheck,
  type ScheduledQuote,
} from '../../src/domain/poll-schedule.ts';

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
    for (const [ageMs, alone, covered] of [
      [5 * HOUR, 10 * MINUTE, 30 * MINUTE],
      [2 * DAY, 2 * HOUR, 4 * HOUR],
    ] as const) {
      const now = CREATED + ageMs;
      expect(nextCheckAtMs(quote, now, false)).toBe(now + alone);
      expect(nextCheckAtMs(quote, now, true)).toBe(now + covered);
    }
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
    ['PAID, while wallets collect', 'PAID', 0, 20 * SECOND, 45 * SECOND],
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
    ['was collected', { state: 'ISSUED', paidAtMs: CREATED }],
    ['ended for good', { state: 'EXPIRED', paidAtMs: null }],
  ] as const)('that %s is never', (_case, changes) => {
    expect(nextCheckAtMs({ ...unpaid(), ...changes }, CREATED, false)).toBeNull();
  });

  it.each(['PAID', 'INFLIGHT'] as const)(
    'that is %s for a week is one more, and then never: the clock may have jumped',
    (state) => {
      const weekOldMs = CREATED + 7 * DAY;
      const at = (checkedAtMs: number, now: number) =>
        nextCheckAtMs(unpaid({ state, paidAtMs: CREATED, checkedAtMs }), now, false);
      expect(at(weekOldMs - 1, weekOldMs + DAY)).not.toBeNull();
      expect(at(weekOldMs, weekOldMs + HOUR - 1)).not.toBeNull();
      expect(at(weekOldMs, weekOldMs + HOUR)).toBeNull();
    },
  );

  it('begins within seconds of the invoice', () => {
    const check = firstCheck({ createdAtMs: CREATED, expiresAtMs: EXPIRES });
    expect(check).toEqual({ atMs: CREATED + 4 * SECOND, checkClass: CHECK_CLASS.soon });
  });

  it('is put before others where somebody waits, and after them where hardly anybody does', () => {
    const { soon, next, rarely } = CHECK_CLASS;
    const classOf = (changes: Partial<ScheduledQuote>, ageMs: number) =>
      nextCheck(unpaid(changes), CREATED + ageMs, false)?.checkClass;
    expect(classOf({}, MINUTE)).toBe(soon);
    expect(classOf({ state: 'INFLIGHT', paidAtMs: CREATED }, MINUTE)).toBe(soon);
    expect(classOf({}, 30 * MINUTE)).toBe(next);
    expect(classOf({ state: 'PAID', paidAtMs: CREATED }, 5 * MINUTE)).toBe(next);
    expect(classOf({ state: 'PAID', paidAtMs: CREATED }, 11 * MINUTE)).toBe(rarely);
    expect(classOf({}, 5 * HOUR)).toBe(rarely);
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
    let quote = unpaid();
    while (!isPastGrace(quote, now)) {
      const checkedAtMs = now;
      now = nextCheckAtMs(quote, now, false) ?? Number.POSITIVE_INFINITY;
      quote = unpaid({ checkedAtMs });
      looks += 1;
    }
    expect(now).toBeGreaterThanOrEqual(EXPIRES + DAY);
    expect(now).toBeLessThan(EXPIRES + 2 * DAY);
    expect(looks).toBeLessThan(150);
  });
});

describe('the time in which a late payment is waited for', () => {
  it('is a day, and until a second answer an hour later', () => {
    expect(isPastGrace(unpaid(), EXPIRES + 9 * DAY)).toBe(false);
    expect(isPastGrace(unpaid({ checkedAtMs: EXPIRES + DAY - 1 }), EXPIRES + 9 * DAY)).toBe(false);
    const looked = unpaid({ checkedAtMs: EXPIRES + DAY });
    expect(isPastGrace(looked, EXPIRES + DAY + HOUR - 1)).toBe(false);
    expect(isPastGrace(looked, EXPIRES + DAY + HOUR)).toBe(true);
  });

  it('does not end by a clock that jumped ahead and came back', () => {
    const ahead = unpaid({ checkedAtMs: EXPIRES + 400 * DAY });
    expect(isPastGrace(ahead, CREATED + MINUTE)).toBe(false);
    expect(isPastGrace(ahead, EXPIRES + DAY)).toBe(false);
  });

  it('is counted from its making where its expiry is long past, as by a mint with a wrong clock', () => {
    const odd = (checkedAtMs: number) => unpaid({ expiresAtMs: 3_600_000, checkedAtMs });
    expect(isPastGrace(odd(CREATED + DAY - 1), CREATED + 2 * DAY)).toBe(false);
    expect(isPastGrace(odd(CREATED + DAY), CREATED + 2 * DAY)).toBe(true);
  });
});

describe('the turns of a mint that cannot be asked about all that is due', () => {
  it('give the young the most, and each class one in four at least', () => {
    const firsts = Array.from({ length: 100 }, (_, turn) => orderOfTurn(turn)[0]);
    const times = (checkClass: CheckClass) => firsts.filter((first) => first === checkClass).length;
    expect([0, 1, 2].map((checkClass) => times(checkClass as CheckClass))).toEqual([50, 25, 25]);
  });

  it('leave no class out, and keep young before old behind the first', () => {
    for (const turn of [0, 1, 2, 3, 4, 1_000_003]) {
      const [first, ...others] = orderOfTurn(turn);
      expect([...others].sort()).toEqual(others);
      expect([first, ...others].toSorted()).toEqual([0, 1, 2]);
    }
  });
});

const anyQuote = fc.record({
  state: fc.constantFrom('UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'),
  createdAtMs: fc.constant(CREATED),
  expiresAtMs: fc.integer({ min: CREATED - DAY, max: CREATED + 30 * DAY }),
  paidAtMs: fc.option(fc.integer({ min: CREATED, max: CREATED + 30 * DAY })),
  checkedAtMs: fc.option(fc.integer({ min: CREATED, max: CREATED + 60 * DAY })),
});

function unpaid(changes: Partial<ScheduledQuote> = {}): ScheduledQuote {
  return {
    state: 'UNPAID',
    createdAtMs: CREATED,
    expiresAtMs: EXPIRES,
    paidAtMs: null,
    checkedAtMs: null,
    ...changes,
  };
}

/** How long after `now` an unpaid quote is looked at again. */
function afterUnpaid(now: number, isCovered = false): number {
  return (nextCheckAtMs(unpaid(), now, isCovered) ?? Number.NaN) - now;
}

function nextCheckAtMs(quote: ScheduledQuote, now: number, isCovered: boolean): number | null {
  return nextCheck(quote, now, isCovered)?.atMs ?? null;
}
