import { computeBackoffMs } from '../backoff.ts';
import type { DeliveryState } from '../database/schema.ts';
import type { HandshakeFailure } from '../net/request-failure.ts';
import { toDisplayText } from '../untrusted-text.ts';
import { MIN_RATE_LIMIT_BACKOFF_MS, RECEIPT_BACKOFF, RELAY_BACKOFF } from './limits.ts';

/** Why a relay rejected an event (NIP-01, NIP-42). `final`: retries cannot succeed. `other`: retries may succeed. */
export type RelayRejection = 'final' | 'auth_required' | 'rate_limited' | 'other';

/** The result of publishing an event at a relay. `message` is the relay's message, made printable; may be empty. */
export type PublishResult =
  /** The relay stores the event, perhaps since an earlier attempt. */
  | { outcome: 'accepted'; message: string }
  | { outcome: 'rejected'; rejection: RelayRejection; message: string }
  /** The event was sent, so the relay may store it. */
  | { outcome: 'no_response' }
  /** The event was not sent. */
  | { outcome: 'unreachable'; reason: HandshakeFailure };

export interface DeliveryUpdate {
  state: Exclude<DeliveryState, 'given_up'>;
  attempts: number;
  /** Milliseconds since 1970; null if the delivery has ended. */
  nextAttemptAtMs: number | null;
  lastResult: string;
}

export interface RelayStatus {
  failures: number;
  /** Milliseconds since 1970; null if the relay is healthy. */
  backoffUntilMs: number | null;
  lastError: string | null;
}

/** @param untrustedMessage the message of the relay's OK (NIP-01), for example `rate-limited: slow down there` */
export function parseOkMessage(isAccepted: boolean, untrustedMessage: string): PublishResult {
  const [, rawPrefix = ''] = OK_MESSAGE_PREFIX.exec(untrustedMessage) ?? [];
  const prefix = rawPrefix.toLowerCase().replace(/[_ ]/, '-');
  const message = toDisplayText(untrustedMessage);
  return isAccepted || prefix === 'duplicate'
    ? { outcome: 'accepted', message }
    : { outcome: 'rejected', rejection: REJECTION_BY_PREFIX.get(prefix) ?? 'other', message };
}

const REJECTION_BY_PREFIX: ReadonlyMap<string, RelayRejection> = new Map([
  ['blocked', 'final'],
  ['invalid', 'final'],
  ['pow', 'final'],
  ['restricted', 'final'],
  ['mute', 'final'],
  ['auth-required', 'auth_required'],
  ['rate-limited', 'rate_limited'],
]);

/** The prefix ends with a colon (NIP-01), but some relays send only the prefix. */
const OK_MESSAGE_PREFIX = /^\s*([a-z]+(?:[-_ ][a-z]+)?)\s*(?::|$)/i;

export function computeDeliveryUpdate(
  previousAttempts: number,
  result: PublishResult,
  nowMs: number,
): DeliveryUpdate {
  const lastResult = describeResult(result);
  if (result.outcome === 'unreachable') {
    // Does not count as an attempt. The relay's own backoff delays the receipt.
    return { state: 'open', attempts: previousAttempts, nextAttemptAtMs: nowMs, lastResult };
  }
  const attempts = previousAttempts + 1;
  if (result.outcome === 'accepted') {
    return { state: 'accepted', attempts, nextAttemptAtMs: null, lastResult };
  }
  if (result.outcome === 'rejected' && result.rejection === 'final') {
    return { state: 'rejected', attempts, nextAttemptAtMs: null, lastResult };
  }
  const delayMs = computeBackoffMs(attempts, RECEIPT_BACKOFF);
  return { state: 'open', attempts, nextAttemptAtMs: nowMs + delayMs, lastResult };
}

/**
 * Decides the status of a relay after a batch of receipts. If the relay accepted some of them before it failed, this
 * failure is its first one.
 */
export function computeRelayStatus(
  previousFailures: number,
  results: readonly PublishResult[],
  nowMs: number,
): RelayStatus {
  const failedResult = results.find(
    (result) =>
      result.outcome === 'unreachable' || result.outcome === 'no_response' || isRateLimited(result),
  );
  if (failedResult === undefined) {
    return { failures: 0, backoffUntilMs: null, lastError: null };
  }
  const failures = results.some(({ outcome }) => outcome === 'accepted') ? 1 : previousFailures + 1;
  const minBackoffMs = isRateLimited(failedResult) ? MIN_RATE_LIMIT_BACKOFF_MS : 0;
  const backoffMs = Math.max(minBackoffMs, computeBackoffMs(failures, RELAY_BACKOFF));
  return { failures, backoffUntilMs: nowMs + backoffMs, lastError: describeResult(failedResult) };
}

function isRateLimited(result: PublishResult): boolean {
  return result.outcome === 'rejected' && result.rejection === 'rate_limited';
}

function describeResult(result: PublishResult): string {
  switch (result.outcome) {
    case 'unreachable':
      return result.reason;
    case 'no_response':
      return 'no response';
    default:
      return result.message;
  }
}
