import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  afterTry,
  afterTurn,
  GIVE_UP_AFTER_MS,
  LONGEST_DISTANCE_MS,
  LONGEST_REST_MS,
  type Reception,
  type RelayRecord,
  type TurnEnd,
} from '../../src/domain/receipt-delivery.ts';
import type { RelayRefusal } from '../../src/domain/relay-word.ts';

const NOW = 1_800_000_000_000;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const FOR_GOOD: RelayRefusal[] = [
  'blocked',
  'invalid',
  'pow',
  'restricted',
  'mute',
  'auth_required',
];
const FOR_NOW: RelayRefusal[] = ['rate_limited', 'error', 'other'];

const refused = (refusal: RelayRefusal): Reception => ({
  outcome: 'refused',
  refusal,
  word: `${refusal}: no`,
});

const cameToNothing = fc.constantFrom<Reception>(
  { outcome: 'unanswered' },
  ...FOR_NOW.map((refusal) => refused(refusal)),
);

function step(tries: number, reception: Reception, canAuthenticate = true) {
  return afterTry(tries, reception, NOW, { canAuthenticate });
}

describe('a receipt that a relay was sent', () => {
  it('is there once the relay says so, whatever came before', () => {
    fc.assert(
      fc.property(fc.nat(), fc.string(), (tries, word) => {
        expect(step(tries, { outcome: 'accepted', word })).toEqual({
          state: 'accepted',
          nextTryAtMs: null,
          word,
        });
      }),
    );
  });

  it.each(FOR_GOOD)('is not sent again once it is refused as %s', (refusal) => {
    expect(step(0, refused(refusal))).toEqual({
      state: 'refused',
      nextTryAtMs: null,
      word: `${refusal}: no`,
    });
  });

  it.each(FOR_NOW)('is sent again after it was turned away with %s', (refusal) => {
    expect(step(0, refused(refusal))).toEqual({
      state: 'open',
      nextTryAtMs: NOW + 10 * SECOND,
      word: `${refusal}: no`,
    });
  });

  it('is sent again where nobody could have answered a demand for AUTH', () => {
    expect(step(0, refused('auth_required'), false)).toMatchObject({ state: 'open' });
    expect(step(0, refused('restricted'), false)).toMatchObject({ state: 'refused' });
  });

  it('is sent again where no word came, and tells so', () => {
    expect(step(0, { outcome: 'unanswered' })).toEqual({
      state: 'open',
      nextTryAtMs: NOW + 10 * SECOND,
      word: 'no answer',
    });
  });

  it('is tried at distances that only grow, at first in seconds and never for longer than hours', () => {
    fc.assert(
      fc.property(fc.nat({ max: 100_000 }), cameToNothing, cameToNothing, (tries, one, other) => {
        const distance = (step(tries, one).nextTryAtMs ?? 0) - NOW;
        const nextDistance = (step(tries + 1, other).nextTryAtMs ?? 0) - NOW;
        expect(distance).toBeGreaterThanOrEqual(10 * SECOND);
        expect(nextDistance).toBeGreaterThanOrEqual(distance);
        expect(nextDistance).toBeLessThanOrEqual(LONGEST_DISTANCE_MS);
      }),
    );
  });

  it('is tried a few times within the first minutes, and some twenty times until it is given up', () => {
    const times = [NOW];
    for (let tries = 0; (times.at(-1) ?? 0) < NOW + GIVE_UP_AFTER_MS; tries += 1) {
      const options = { canAuthenticate: true };
      const next = afterTry(tries, { outcome: 'unanswered' }, times.at(-1) ?? 0, options);
      times.push(next.nextTryAtMs ?? Number.NaN);
    }
    expect(times.filter((time) => time <= NOW + 3 * MINUTE)).toHaveLength(4);
    expect(times.length).toBeGreaterThan(15);
    expect(times.length).toBeLessThan(25);
  });
});

describe('a relay after a turn', () => {
  const unreachable = { kind: 'unreachable', word: 'connection refused' } as const;
  const silent = { kind: 'silent', word: 'stopped to answer' } as const;
  const silentAtSuspect = { kind: 'silent_at_suspect', word: 'no answer' } as const;
  const rateLimited = { kind: 'rate_limited' } as const;

  it('may be used at once where it took something, however often it failed before', () => {
    expect(turnEnds({ acceptances: 3 }, { failures: 7 })).toEqual({
      failures: 0,
      restUntilMs: null,
      word: null,
      wentWell: true,
    });
  });

  it('rests for seconds after a first failure, and tells why', () => {
    expect(turnEnds({ trouble: unreachable })).toEqual({
      failures: 1,
      restUntilMs: NOW + 5 * SECOND,
      word: 'connection refused',
      wentWell: false,
    });
  });

  it.each([
    ['unreachable', unreachable],
    ['silent', silent],
    ['rate-limited', rateLimited],
  ] as const)('rests for longer and longer while it is %s, up to an hour', (_how, trouble) => {
    const record = fc.record({
      failures: fc.nat({ max: 100_000 }),
      hasServed: fc.boolean(),
      isOwn: fc.boolean(),
    });
    fc.assert(
      fc.property(record, (before) => {
        const first = turnEnds({ trouble }, before);
        const second = turnEnds({ trouble }, { ...before, failures: first.failures });
        expect(second.failures).toBe(before.failures + 2);
        expect(second.restUntilMs).toBeGreaterThanOrEqual(first.restUntilMs ?? 0);
        expect(second.restUntilMs).toBeLessThanOrEqual(NOW + LONGEST_REST_MS);
      }),
    );
    expect(turnEnds({ trouble }, { failures: 20 }).restUntilMs).toBe(NOW + HOUR);
  });

  it('that strangers name and that never served rests longer, and the operator’s does not', () => {
    const never = { hasServed: false };
    expect(turnEnds({ trouble: unreachable }, never).restUntilMs).toBe(NOW + 45 * SECOND);
    expect(turnEnds({ trouble: unreachable }, { ...never, isOwn: true }).restUntilMs).toBe(
      NOW + 5 * SECOND,
    );
  });

  it.each([
    ['silent', silent],
    ['unreachable', unreachable],
  ] as const)(
    'that took something before it was %s rests for seconds, and did not do well',
    (_how, trouble) => {
      expect(turnEnds({ acceptances: 1, trouble }, { failures: 6 })).toEqual({
        failures: 1,
        restUntilMs: NOW + 5 * SECOND,
        word: trouble.word,
        wentWell: false,
      });
    },
  );

  it('that has no word for a single receipt that had none before rests for seconds only', () => {
    expect(turnEnds({ acceptances: 40, trouble: silentAtSuspect })).toEqual({
      failures: 0,
      restUntilMs: NOW + 5 * SECOND,
      word: 'no answer',
      wentWell: true,
    });
    for (const failures of [0, 1]) {
      expect(turnEnds({ trouble: silentAtSuspect }, { failures })).toMatchObject({
        failures,
        restUntilMs: NOW + 5 * SECOND,
        wentWell: false,
      });
    }
  });

  it('that never had a word for anything rests longer with each single receipt, too', () => {
    const never = { failures: 1, hasServed: false };
    expect(turnEnds({ trouble: silentAtSuspect }, never)).toMatchObject({ failures: 2 });
  });

  it('that says no to all did neither well nor badly', () => {
    const standing = { failures: 3, restUntilMs: null, word: null, wentWell: false };
    expect(turnEnds({}, { failures: 3 })).toEqual(standing);
    expect(turnEnds({}, { failures: 0 })).toEqual({ ...standing, failures: 0 });
  });

  it('that takes long for an answer did not do well, and rests for seconds', () => {
    const slow = { isSlow: true };
    expect(turnEnds({ acceptances: 2, ...slow })).toEqual({
      failures: 1,
      restUntilMs: NOW + 5 * SECOND,
      word: 'slow answers',
      wentWell: false,
    });
    expect(turnEnds({ acceptances: 2, isSlow: false })).toMatchObject({
      failures: 0,
    });
  });

  it('that wants to be sent less is left alone for a minute while it takes some', () => {
    expect(turnEnds({ acceptances: 5, trouble: rateLimited }, { failures: 3 })).toEqual({
      failures: 0,
      restUntilMs: NOW + MINUTE,
      word: 'rate-limited',
      wentWell: true,
    });
  });

  it('that wants to be sent less for ever is asked fewer than a hundred times in two days', () => {
    let failures = 0;
    let nowMs = NOW;
    let turns = 0;
    for (; nowMs < NOW + GIVE_UP_AFTER_MS; turns += 1) {
      const result = turnEnds({ trouble: rateLimited }, { failures }, nowMs);
      failures = result.failures;
      nowMs = result.restUntilMs ?? nowMs;
    }
    expect(turns).toBeLessThan(100);
  });

  function turnEnds(end: Partial<TurnEnd>, before: Partial<RelayRecord> = {}, nowMs = NOW) {
    return afterTurn(
      { failures: 0, hasServed: true, isOwn: false, ...before },
      { acceptances: 0, isSlow: false, trouble: null, ...end },
      nowMs,
    );
  }
});
