import type { CountedKey } from '../fixed-window-rate-limiter.ts';
import type { HttpResponse } from '../net/http-client.ts';
import { parseRetryAfterMs } from '../net/retry-after.ts';
import { NOSTR_LIMITS, NOTIFICATION_LIMITS, PUSH_SERVICE_SITES, RETRY_LIMITS } from './limits.ts';
import type { ChannelUpdate, DueChannel } from './outbox-store.ts';

/** The result of sending a message. `text`: what the server answered, or why it did not. */
export type DeliveryResult =
  | { outcome: 'delivered'; text: string }
  /** A retry may succeed. `retryAfterMs`: what the server asked for. */
  | { outcome: 'failed'; text: string; retryAfterMs?: number }
  /** The receiver wants no more messages. */
  | { outcome: 'gone'; text: string };

/** Reads the response to a message. @param goneStatuses mean that the receiver wants no more messages */
export function toDeliveryResult(
  response: HttpResponse,
  nowMs: number,
  goneStatuses: readonly number[],
): DeliveryResult {
  if (response.outcome === 'unreachable') {
    return { outcome: 'failed', text: response.reason };
  }
  const { status, headers } = response;
  const text = `HTTP ${status}`;
  if (status >= 200 && status < 300) {
    return { outcome: 'delivered', text };
  }
  if (goneStatuses.includes(status)) {
    return { outcome: 'gone', text };
  }
  const { maxRetryAfterMs } = RETRY_LIMITS;
  const retryAfterMs = parseRetryAfterMs(headers.get('retry-after'), nowMs, maxRetryAfterMs) ?? 0;
  return { outcome: 'failed', text, retryAfterMs };
}

/** Returns as what a request to a site is counted. */
export function toSiteKey(site: string): CountedKey {
  return { key: site, factor: isPushService(site) ? NOTIFICATION_LIMITS.pushServiceFactor : 1 };
}

/** Returns how many deliveries to a site may be in progress. @param site null for Nostr messages, to all sites */
export function getMaxInFlight(site: string | null): number {
  if (site === null) {
    return NOSTR_LIMITS.maxInFlight;
  }
  const { maxInFlightPerSite, maxInFlightPerPushService } = NOTIFICATION_LIMITS;
  return isPushService(site) ? maxInFlightPerPushService : maxInFlightPerSite;
}

function isPushService(site: string): boolean {
  return PUSH_SERVICE_SITES.includes(site);
}

/** Computes the state of a channel after a message. @param isBehind whether more is due than fits into a message */
export function computeChannelUpdate(
  { failingSinceMs, lastAttemptAtMs }: Pick<DueChannel, 'failingSinceMs' | 'lastAttemptAtMs'>,
  result: DeliveryResult,
  { nowMs, isBehind }: { nowMs: number; isBehind: boolean },
): ChannelUpdate {
  if (result.outcome === 'delivered') {
    const pauseMs = isBehind ? 0 : NOTIFICATION_LIMITS.pauseMs;
    return {
      notBeforeMs: nowMs + pauseMs,
      failingSinceMs: null,
      lastError: null,
      isDisabled: false,
    };
  }
  const isSameOutage = nowMs - (lastAttemptAtMs ?? 0) <= NOTIFICATION_LIMITS.outageGapMs;
  const outageStartMs = (isSameOutage ? failingSinceMs : null) ?? nowMs;
  const failingForMs = nowMs - outageStartMs;
  const isDisabled =
    result.outcome === 'gone' || failingForMs >= NOTIFICATION_LIMITS.disableAfterMs;
  const retryAfterMs = (result.outcome === 'failed' && result.retryAfterMs) || 0;
  return {
    notBeforeMs: nowMs + Math.max(computeRetryDelayMs(failingForMs), retryAfterMs),
    failingSinceMs: outageStartMs,
    lastError: result.text,
    isDisabled,
  };
}

/**
 * Returns the pause before the next attempt: a tenth of the outage so far, so it grows exponentially. Doubling pauses would
 * delay a reminder, which has a deadline, by as much as the outage took.
 */
function computeRetryDelayMs(failingForMs: number): number {
  return Math.min(Math.max(Math.round(failingForMs / 10), RETRY_LIMITS.minMs), RETRY_LIMITS.maxMs);
}
