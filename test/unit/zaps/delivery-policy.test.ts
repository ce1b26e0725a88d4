import { describe, expect, it } from 'vitest';
import type { PublishResult } from '../../../src/relays/publish-result.ts';
import { computeDeliveryUpdate, computeRelayStatus } from '../../../src/zaps/delivery-policy.ts';

const NOW_MS = 1_750_000_000_000;
const SECOND_MS = 1_000;
const HOUR_MS = 3_600 * SECOND_MS;

const createResult = (outcome: PublishResult['outcome'], message = ''): PublishResult => ({
  outcome,
  message,
});

describe('computeDeliveryUpdate', () => {
  it.each(['auth_required', 'rate_limited', 'error', 'no_response'] as const)(
    'retries with exponential backoff after %s',
    (outcome) => {
      const delaysMs = Array.from({ length: 20 }, (_, attempts) => {
        const update = computeDeliveryUpdate(attempts, createResult(outcome), NOW_MS);
        expect(update).toMatchObject({ state: 'open', attempts: attempts + 1 });
        return (update.nextAttemptAtMs ?? 0) - NOW_MS;
      });
      expect(delaysMs.slice(0, 4)).toEqual([10, 20, 40, 80].map((seconds) => seconds * SECOND_MS));
      expect(delaysMs.at(-1)).toBe(4 * HOUR_MS);
    },
  );

  it('leaves the delivery due and does not count an attempt if the relay was unreachable', () => {
    const result = createResult('unreachable', 'timed out');
    const update = { state: 'open', attempts: 2, nextAttemptAtMs: NOW_MS, lastResult: 'timed out' };
    expect(computeDeliveryUpdate(2, result, NOW_MS)).toEqual(update);
  });
});

describe('computeRelayStatus', () => {
  it.each(['accepted', 'rejected'] as const)(
    'resets failures and backoff after the outcome %s',
    (outcome) => {
      const resetStatus = { failures: 0, backoffUntilMs: null, lastError: null };
      expect(computeRelayStatus(7, [createResult(outcome)], NOW_MS)).toEqual(resetStatus);
    },
  );

  it('backs off exponentially while the relay is unreachable', () => {
    const backoffsMs = Array.from({ length: 12 }, (_, failures) => {
      const result = createResult('unreachable', 'timed out');
      const status = computeRelayStatus(failures, [result], NOW_MS);
      expect(status).toMatchObject({ failures: failures + 1, lastError: 'timed out' });
      return (status.backoffUntilMs ?? 0) - NOW_MS;
    });
    expect(backoffsMs.slice(0, 4)).toEqual([5, 10, 20, 40].map((seconds) => seconds * SECOND_MS));
    expect(backoffsMs.at(-1)).toBe(HOUR_MS);
  });

  it.each([
    ['only 5 s', 'no_response', 5 * SECOND_MS],
    ['at least a minute', 'rate_limited', 60 * SECOND_MS],
  ] as const)(
    'backs off for %s if the relay accepted a receipt before the outcome %s',
    (_case, outcome, backoffMs) => {
      const results = [createResult('accepted'), createResult(outcome, 'slow down')];
      const backoffUntilMs = NOW_MS + backoffMs;
      expect(computeRelayStatus(9, results, NOW_MS)).toEqual({
        failures: 1,
        backoffUntilMs,
        lastError: 'slow down',
      });
    },
  );
});
