import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  afterTry,
  afterTurn,
  GIVE_UP_AFTER_MS,
  LONGEST_DISTANCE_MS,
  LONGEST_REST_MS,
  type Reception,
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

  it('may be used at once where nothing was in the way, however often it failed before', () => {
    expect(afterTurn(7, { answers: 3, trouble: null }, NOW)).toEqual({
      failures: 0,
      restUntilMs: null,
      word: null,
    });
  });

  it('rests for seconds after a first failure, and tells why', () => {
    expect(afterTurn(0, { answers: 0, trouble: unreachable }, NOW)).toEqual({
      failures: 1,
      restUntilMs: NOW + 5 * SECOND,
      word: 'connection refused',
    });
  });

  it('rests for longer and longer while nothing comes of it, up to an hour', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 100_000 }),
        fc.constantFrom(unreachable, silent),
        (failures, trouble) => {
          const first = afterTurn(failures, { answers: 0, trouble }, NOW);
          const second = afterTurn(first.failures, { answers: 0, trouble }, NOW);
          expect(second.failures).toBe(failures + 2);
          expect(second.restUntilMs).toBeGreaterThanOrEqual(first.restUntilMs ?? 0);
          expect(second.restUntilMs).toBeLessThanOrEqual(NOW + LONGEST_REST_MS);
        },
      ),
    );
    expect(afterTurn(20, { answers: 0, trouble: silent }, NOW).restUntilMs).toBe(NOW + HOUR);
  });

  it('that took something before it went silent did not fail, and rests for seconds', () => {
    expect(afterTurn(6, { answers: 1, trouble: silent }, NOW)).toEqual({
      failures: 0,
      restUntilMs: NOW + 5 * SECOND,
      word: 'stopped to answer',
    });
  });

  it('that wants to be sent less is left alone for a minute, and is no failure', () => {
    expect(afterTurn(3, { answers: 5, trouble: { kind: 'rate_limited' } }, NOW)).toEqual({
      failures: 0,
      restUntilMs: NOW + MINUTE,
      word: 'rate-limited',
    });
  });
});
