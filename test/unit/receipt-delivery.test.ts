import { describe, expect, it } from 'vitest';
import {
  deliveryAfter,
  type PublishResult,
  type RelayRefusal,
  readOk,
  standingAfter,
} from '../../src/zaps/receipt-delivery.ts';

const NOW_MS = 1_750_000_000_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

const PASSING: RelayRefusal[] = ['auth_required', 'rate_limited', 'other'];

describe('an OK of a relay', () => {
  it.each([
    ['blocked: you are banned from posting here', 'final'],
    ['invalid: event creation date is too far off', 'final'],
    ['pow: difficulty 25>=24', 'final'],
    ['restricted: not allowed to write.', 'final'],
    ['mute: no one was listening', 'final'],
    ['auth-required: we only serve registered users', 'auth_required'],
    ['rate-limited: slow down there chief', 'rate_limited'],
    ['error: could not connect to the database', 'other'],
    ['BLOCKED:go away', 'final'],
    ['rate limited: too fast', 'rate_limited'],
    ['Auth_Required: who are you?', 'auth_required'],
    ['', 'other'],
    ['blocked by the operator', 'other'],
    ['this is a duplicate: of what you sent', 'other'],
    ['constructor: __proto__', 'other'],
  ])('that refuses an event with "%s" has the reason %s', (message, refusal) => {
    expect(readOk(false, message)).toEqual({ outcome: 'refused', refusal, word: message });
  });

  it.each(['duplicate: already have this event', 'DUPLICATE'])(
    'that refuses an event with "%s" accepts it',
    (message) => {
      expect(readOk(false, message)).toEqual({ outcome: 'accepted', word: message });
    },
  );

  it('is stored as one short, printable line', () => {
    const message = `blocked: a\u0000\u001b[31m\nb\u202ec${'x'.repeat(9_000)}`;
    const { word } = readOk(false, message) as { word: string };
    expect(word).toMatch(/^blocked: a\[31m bcx+$/);
    expect(word.length).toBeLessThanOrEqual(200);
  });

  it.each([' '.repeat(250_000), `a${' '.repeat(250_000)}b`, 'a'.repeat(250_000)])(
    'is read in linear time',
    (message) => {
      const startedAtMs = performance.now();
      readOk(false, message);
      expect(performance.now() - startedAtMs).toBeLessThan(1_000);
    },
  );
});

describe('a receipt that was sent to a relay', () => {
  it('is delivered if the relay accepted it', () => {
    expect(deliveryAfter(3, { outcome: 'accepted', word: 'thanks' }, NOW_MS)).toEqual({
      state: 'accepted',
      tries: 4,
      nextTryAtMs: null,
      word: 'thanks',
    });
  });

  it('is never sent again after a final refusal', () => {
    const result = { outcome: 'refused', refusal: 'final', word: 'no' } as const;
    expect(deliveryAfter(0, result, NOW_MS)).toMatchObject({ state: 'refused', nextTryAtMs: null });
  });

  it.each<PublishResult>([
    ...PASSING.map((refusal) => ({ outcome: 'refused', refusal, word: 'no' }) as const),
    { outcome: 'unanswered' },
  ])('is sent again after $outcome $refusal, with exponential backoff', (result) => {
    const intervals = Array.from({ length: 20 }, (_, tries) => {
      const step = deliveryAfter(tries, result, NOW_MS);
      expect(step).toMatchObject({ state: 'open', tries: tries + 1 });
      return (step.nextTryAtMs ?? 0) - NOW_MS;
    });
    expect(intervals.slice(0, 4)).toEqual([10, 30, 90, 270].map((each) => each * SECOND_MS));
    expect(intervals.at(-1)).toBe(4 * HOUR_MS);
  });

  it('stays due if it was not sent', () => {
    expect(deliveryAfter(2, { outcome: 'unreachable', reason: 'timed out' }, NOW_MS)).toEqual({
      state: 'open',
      tries: 2,
      nextTryAtMs: NOW_MS,
      word: 'timed out',
    });
  });
});

describe('a relay', () => {
  const accepted: PublishResult = { outcome: 'accepted', word: '' };
  const timeout: PublishResult = { outcome: 'unreachable', reason: 'timed out' };

  it.each<PublishResult>([accepted, { outcome: 'refused', refusal: 'final', word: 'no' }])(
    'is healthy after answering $outcome',
    (result) => {
      const healthy = { failures: 0, restUntilMs: null, word: null };
      expect(standingAfter(7, [result], NOW_MS)).toEqual(healthy);
    },
  );

  it('rests with exponential backoff while it fails', () => {
    const rests = Array.from({ length: 10 }, (_, failures) => {
      const standing = standingAfter(failures, [timeout], NOW_MS);
      expect(standing).toMatchObject({ failures: failures + 1, word: 'timed out' });
      return (standing.restUntilMs ?? 0) - NOW_MS;
    });
    expect(rests.slice(0, 4)).toEqual([5, 15, 45, 135].map((each) => each * SECOND_MS));
    expect(rests.at(-1)).toBe(HOUR_MS);
  });

  it('rests for seconds if it accepted receipts before it failed', () => {
    expect(standingAfter(9, [accepted, { outcome: 'unanswered' }], NOW_MS)).toEqual({
      failures: 1,
      restUntilMs: NOW_MS + 5 * SECOND_MS,
      word: 'no answer',
    });
  });

  it('rests for at least a minute after a rate limit', () => {
    const refused = { outcome: 'refused', refusal: 'rate_limited', word: 'slow down' } as const;
    expect(standingAfter(0, [accepted, refused], NOW_MS)).toMatchObject({
      restUntilMs: NOW_MS + MINUTE_MS,
      word: 'slow down',
    });
  });
});
