import { describe, expect, it } from 'vitest';
import {
  computeDeliveryUpdate,
  computeRelayStatus,
  type PublishResult,
  parseOkMessage,
  type RelayRejection,
} from '../../../src/zaps/delivery-policy.ts';

const NOW_MS = 1_750_000_000_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

const RETRIABLE_REJECTIONS: RelayRejection[] = ['auth_required', 'rate_limited', 'other'];

describe('parseOkMessage', () => {
  it.each([
    ['blocked: you are banned from posting here', 'final'],
    ['invalid: event creation date is too far off', 'final'],
    ['pow: difficulty 25>=24', 'final'],
    ['auth-required: we only serve registered users', 'auth_required'],
    ['rate-limited: slow down there chief', 'rate_limited'],
    ['rate limited: too fast', 'rate_limited'],
    ['Auth_Required: who are you?', 'auth_required'],
    ['', 'other'],
  ])('classifies the rejection "%s" as %s', (message, rejection) => {
    expect(parseOkMessage(false, message)).toEqual({ outcome: 'rejected', rejection, message });
  });

  it.each(['duplicate: already have this event', 'DUPLICATE'])(
    'treats the rejection "%s" as accepted',
    (message) => {
      expect(parseOkMessage(false, message)).toEqual({ outcome: 'accepted', message });
    },
  );

  it('returns at most 200 printable characters of the message on one line', () => {
    const message = `blocked: a\u0000\u001b[31m\nb\u202ec${'x'.repeat(9_000)}`;
    const result = parseOkMessage(false, message) as { message: string };
    expect(result.message).toMatch(/^blocked: a\[31m bcx+$/);
    expect(result.message.length).toBeLessThanOrEqual(200);
  });

  it.each([
    ['only spaces', ' '.repeat(250_000)],
    ['spaces between letters', `a${' '.repeat(250_000)}b`],
  ])('takes less than a second for a message of 250,000 characters with %s', (_case, message) => {
    const startedAtMs = performance.now();
    parseOkMessage(false, message);
    expect(performance.now() - startedAtMs).toBeLessThan(1_000);
  });
});

describe('computeDeliveryUpdate', () => {
  it.each<[string, PublishResult]>([
    ...RETRIABLE_REJECTIONS.map((rejection): [string, PublishResult] => [
      `the rejection ${rejection}`,
      { outcome: 'rejected', rejection, message: 'no' },
    ]),
    ['no response', { outcome: 'no_response' }],
  ])('retries with exponential backoff after %s', (_case, result) => {
    const delaysMs = Array.from({ length: 20 }, (_, attempts) => {
      const update = computeDeliveryUpdate(attempts, result, NOW_MS);
      expect(update).toMatchObject({ state: 'open', attempts: attempts + 1 });
      return (update.nextAttemptAtMs ?? 0) - NOW_MS;
    });
    expect(delaysMs.slice(0, 4)).toEqual([10, 20, 40, 80].map((seconds) => seconds * SECOND_MS));
    expect(delaysMs.at(-1)).toBe(4 * HOUR_MS);
  });

  it('leaves the delivery due and does not count an attempt if the relay was unreachable', () => {
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
    'resets failures and backoff after the outcome $outcome',
    (result) => {
      const resetStatus = { failures: 0, backoffUntilMs: null, lastError: null };
      expect(computeRelayStatus(7, [result], NOW_MS)).toEqual(resetStatus);
    },
  );

  it('backs off exponentially while the relay is unreachable', () => {
    const backoffsMs = Array.from({ length: 12 }, (_, failures) => {
      const status = computeRelayStatus(failures, [timeout], NOW_MS);
      expect(status).toMatchObject({ failures: failures + 1, lastError: 'timed out' });
      return (status.backoffUntilMs ?? 0) - NOW_MS;
    });
    expect(backoffsMs.slice(0, 4)).toEqual([5, 10, 20, 40].map((seconds) => seconds * SECOND_MS));
    expect(backoffsMs.at(-1)).toBe(HOUR_MS);
  });

  it('backs off for only 5 s if the relay accepted a receipt before it failed', () => {
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
