import { computeBackoffMs } from '../backoff.ts';
import type { PublishResult } from '../relays/publish-result.ts';
import { RECEIPT_BACKOFF, RELAY_BACKOFF } from './limits.ts';

export type DeliveryUpdate = ReturnType<typeof computeDeliveryUpdate>;

export type RelayStatus = ReturnType<typeof computeRelayStatus>;

/** Computes the new row of a delivery after an attempt. `nextAttemptAtMs` is null if the delivery has ended. */
export function computeDeliveryUpdate(
  previousAttempts: number,
  { outcome, message: lastResult }: PublishResult,
  nowMs: number,
) {
  const state = outcome === 'accepted' || outcome === 'rejected' ? outcome : 'open';
  if (outcome === 'unreachable') {
    // This is not counted as an attempt, and the receipt stays due. The backoff of the relay delays it.
    return { state, attempts: previousAttempts, nextAttemptAtMs: nowMs, lastResult };
  }
  const attempts = previousAttempts + 1;
  const retryAtMs = nowMs + computeBackoffMs(attempts, RECEIPT_BACKOFF);
  return { state, attempts, nextAttemptAtMs: state === 'open' ? retryAtMs : null, lastResult };
}

/**
 * Computes the status of a relay after a batch of receipts: its consecutive failures and the backoff that they cause. A
 * failure counts as the first one if the relay accepted another receipt of the batch.
 */
export function computeRelayStatus(
  previousFailures: number,
  results: readonly PublishResult[],
  nowMs: number,
) {
  const failure = results.find(({ outcome }) =>
    ['unreachable', 'no_response', 'rate_limited'].includes(outcome),
  );
  if (failure === undefined) {
    return { failures: 0, backoffUntilMs: null, lastError: null };
  }
  const hasAccepted = results.some(({ outcome }) => outcome === 'accepted');
  const failures = hasAccepted ? 1 : previousFailures + 1;
  // Relays limit the events per minute.
  const minBackoffMs = failure.outcome === 'rate_limited' ? 60_000 : 0;
  const backoffMs = Math.max(minBackoffMs, computeBackoffMs(failures, RELAY_BACKOFF));
  return { failures, backoffUntilMs: nowMs + backoffMs, lastError: failure.message };
}
