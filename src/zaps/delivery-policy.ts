import { computeBackoffMs } from '../backoff.ts';
import { toDisplayText } from '../untrusted-text.ts';
import { RECEIPT_BACKOFF, RELAY_BACKOFF } from './limits.ts';

/** The result of publishing an event at a relay, with the relay's message or the reason of the failure, printable. */
export interface PublishResult {
  outcome: PublishOutcome;
  message: string;
}

/** After `accepted` and `rejected`, the delivery has ended. After all others, a retry may succeed. */
type PublishOutcome =
  /** The relay has stored the event, now or after an earlier attempt. */
  | 'accepted'
  | 'rejected'
  | 'auth_required'
  | 'rate_limited'
  | 'error'
  /** The event was sent, so the relay may store it. */
  | 'no_response'
  /** The event was not sent. */
  | 'unreachable';

export type DeliveryUpdate = ReturnType<typeof computeDeliveryUpdate>;

export type RelayStatus = ReturnType<typeof computeRelayStatus>;

/** Parses a relay's response to an event, an OK message (NIP-01) such as `rate-limited: slow down there`. */
export function parseOkMessage(isAccepted: boolean, untrustedMessage: string): PublishResult {
  // The prefix ends with a colon (NIP-01), but some relays send only the prefix.
  const [, prefix = ''] = /^\s*([a-z]+(?:[-_ ][a-z]+)?)\s*(?::|$)/i.exec(untrustedMessage) ?? [];
  const outcome = OUTCOME_BY_PREFIX.get(prefix.toLowerCase().replace(/[_ ]/, '-')) ?? 'error';
  return {
    outcome: isAccepted ? 'accepted' : outcome,
    message: toDisplayText(untrustedMessage),
  };
}

const OUTCOME_BY_PREFIX: ReadonlyMap<string, PublishOutcome> = new Map([
  ['duplicate', 'accepted'],
  ['blocked', 'rejected'],
  ['invalid', 'rejected'],
  ['pow', 'rejected'],
  ['restricted', 'rejected'],
  ['mute', 'rejected'],
  ['auth-required', 'auth_required'],
  ['rate-limited', 'rate_limited'],
]);

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
