import { describe, expect, it } from 'vitest';
import {
  computeDeliveryUpdate,
  computeRelayStatus,
  type PublishResult,
  parseOkMessage,
  type RelayRejection,
} from '../../src/zaps/receipt-delivery.ts';

const NOW_MS = 1_750_000_000_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

const PASSING: RelayRejection[] = ['auth_required', 'rate_limited', 'other'];

describe('parseOkMessage', () => {
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
  ])('reads the rejection "%s" as %s', (message, rejection) => {
    expect(parseOkMessage(false, message)).toEqual({ outcome: 'rejected', rejection, message });
  });

  it.each(['duplicate: already have this event', 'DUPLICATE'])(
    'reads "%s" as accepted',
    (message) => {
      expect(parseOkMessage(false, message)).toEqual({ outcome: 'accepted', message });
    },
  );

  it('returns one short, printable line', () => {
    const message = `blocked: a\u0000\u001b[31m\nb\u202ec${'x'.repeat(9_000)}`;
    const result = parseOkMessage(false, message) as { message: string };
    expect(result.message).toMatch(/^blocked: a\[31m bcx+$/);
    expect(result.message.length).toBeLessThanOrEqual(200);
  });

  it.each([' '.repeat(250_000), `a${' '.repeat(250_000)}b`, 'a'.repeat(250_000)])(
    'takes linear time',
    (message) => {
      const startedAtMs = performance.now();
      parseOkMessage(false, message);
      expect(performance.now() - startedAtMs).toBeLessThan(1_000);
    },
  );
});

describe('computeDeliveryUpdate', () => {
  it('marks a receipt as accepted if the relay accepted it', () => {
    expect(computeDeliveryUpdate(3, { outcome: 'accepted', message: 'thanks' }, NOW_MS)).toEqual({
      state: 'accepted',
      attempts: 4,
      nextAttemptAtMs: null,
      lastResult: 'thanks',
    });
  });

  it('stops after a final rejection', () => {
    const result = { outcome: 'rejected', rejection: 'final', message: 'no' } as const;
    expect(computeDeliveryUpdate(0, result, NOW_MS)).toMatchObject({
      state: 'rejected',
      nextAttemptAtMs: null,
    });
  });

  it.each<PublishResult>([
    ...PASSING.map((rejection) => ({ outcome: 'rejected', rejection, message: 'no' }) as const),
    { outcome: 'no_response' },
  ])('retries after $outcome $rejection with exponential backoff', (result) => {
    const intervals = Array.from({ length: 20 }, (_, attempts) => {
      const step = computeDeliveryUpdate(attempts, result, NOW_MS);
      expect(step).toMatchObject({ state: 'open', attempts: attempts + 1 });
      return (step.nextAttemptAtMs ?? 0) - NOW_MS;
    });
    expect(intervals.slice(0, 4)).toEqual([10, 30, 90, 270].map((each) => each * SECOND_MS));
    expect(intervals.at(-1)).toBe(4 * HOUR_MS);
  });

  it('leaves the delivery due if the receipt was not sent', () => {
    expect(
      computeDeliveryUpdate(2, { outcome: 'unreachable', reason: 'timed out' }, NOW_MS),
    ).toEqual({
      state: 'open',
      attempts: 2,
      nextAttemptAtMs: NOW_MS,
      lastResult: 'timed out',
    });
  });
});

describe('computeRelayStatus', () => {
  const accepted: PublishResult = { outcome: 'accepted', message: '' };
  const timeout: PublishResult = { outcome: 'unreachable', reason: 'timed out' };

  it.each<PublishResult>([accepted, { outcome: 'rejected', rejection: 'final', message: 'no' }])(
    'returns healthy after the response $outcome',
    (result) => {
      const healthy = { failures: 0, backoffUntilMs: null, lastError: null };
      expect(computeRelayStatus(7, [result], NOW_MS)).toEqual(healthy);
    },
  );

  it('backs off exponentially while the relay fails', () => {
    const backoffsMs = Array.from({ length: 10 }, (_, failures) => {
      const status = computeRelayStatus(failures, [timeout], NOW_MS);
      expect(status).toMatchObject({ failures: failures + 1, lastError: 'timed out' });
      return (status.backoffUntilMs ?? 0) - NOW_MS;
    });
    expect(backoffsMs.slice(0, 4)).toEqual([5, 15, 45, 135].map((each) => each * SECOND_MS));
    expect(backoffsMs.at(-1)).toBe(HOUR_MS);
  });

  it('backs off for seconds if the relay accepted receipts before it failed', () => {
    expect(computeRelayStatus(9, [accepted, { outcome: 'no_response' }], NOW_MS)).toEqual({
      failures: 1,
      backoffUntilMs: NOW_MS + 5 * SECOND_MS,
      lastError: 'no response',
    });
  });

  it('backs off for at least a minute after a rate limit', () => {
    const rateLimited = {
      outcome: 'rejected',
      rejection: 'rate_limited',
      message: 'slow down',
    } as const;
    expect(computeRelayStatus(0, [accepted, rateLimited], NOW_MS)).toMatchObject({
      backoffUntilMs: NOW_MS + MINUTE_MS,
      lastError: 'slow down',
    });
  });
});
