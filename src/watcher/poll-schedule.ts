import { computeWatchUntilMs, type QuoteStatus } from '../quotes/quote-state.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/**
 * After the watch period, the mint must report the same state twice, this long apart: this clock
 * may have jumped ahead, or the mint's backend may have been offline.
 */
const WATCH_END_CONFIRMATION_MS = HOUR_MS;

/** The poll after the expiry waits for a payment in the last second to settle. */
const POST_EXPIRY_POLL_DELAY_MS = 5 * SECOND_MS;

/** Most invoices that are paid are paid within this time. */
const YOUNG_QUOTE_AGE_MS = 10 * MINUTE_MS;

/** INFLIGHT must be brief, because wallets read it as unpaid. */
const MIN_INFLIGHT_INTERVAL_MS = 3 * SECOND_MS;
const MAX_INFLIGHT_INTERVAL_MS = HOUR_MS;

/** The poll interval below an age. */
interface PollStep {
  maxAgeMs: number;
  intervalMs: number;
  subscribedIntervalMs: number;
}

const UNPAID_STEPS: readonly PollStep[] = [
  { maxAgeMs: MINUTE_MS, intervalMs: 4 * SECOND_MS, subscribedIntervalMs: 20 * SECOND_MS },
  { maxAgeMs: YOUNG_QUOTE_AGE_MS, intervalMs: 15 * SECOND_MS, subscribedIntervalMs: MINUTE_MS },
  { maxAgeMs: HOUR_MS, intervalMs: MINUTE_MS, subscribedIntervalMs: 5 * MINUTE_MS },
  { maxAgeMs: DAY_MS, intervalMs: 10 * MINUTE_MS, subscribedIntervalMs: 30 * MINUTE_MS },
  {
    maxAgeMs: Number.POSITIVE_INFINITY,
    intervalMs: 2 * HOUR_MS,
    subscribedIntervalMs: 4 * HOUR_MS,
  },
];

/** By the time since the expiry. */
const EXPIRED_STEPS: readonly PollStep[] = [
  { maxAgeMs: 10 * MINUTE_MS, intervalMs: MINUTE_MS, subscribedIntervalMs: 2 * MINUTE_MS },
  { maxAgeMs: HOUR_MS, intervalMs: 10 * MINUTE_MS, subscribedIntervalMs: 20 * MINUTE_MS },
  {
    maxAgeMs: Number.POSITIVE_INFINITY,
    intervalMs: 2 * HOUR_MS,
    subscribedIntervalMs: 4 * HOUR_MS,
  },
];

/** By the time since the payment. Online wallets collect immediately. */
const PAID_STEPS: readonly PollStep[] = [
  { maxAgeMs: 2 * MINUTE_MS, intervalMs: 15 * SECOND_MS, subscribedIntervalMs: 45 * SECOND_MS },
  { maxAgeMs: HOUR_MS, intervalMs: MINUTE_MS, subscribedIntervalMs: 2 * MINUTE_MS },
  { maxAgeMs: DAY_MS, intervalMs: 10 * MINUTE_MS, subscribedIntervalMs: 30 * MINUTE_MS },
  {
    maxAgeMs: Number.POSITIVE_INFINITY,
    intervalMs: 2 * HOUR_MS,
    subscribedIntervalMs: 4 * HOUR_MS,
  },
];

/** If not all due quotes can be polled, those that may just have been paid go first. */
const LIKELY_PAYMENT_WEIGHT = 8;

/**
 * Returns whether a response without a state change ends the watch.
 *
 * @param sinceFirstLateResponseMs time since the mint's first response after the watch period
 */
export function shouldEndWatch(
  quote: QuoteStatus,
  nowMs: number,
  sinceFirstLateResponseMs: number,
): boolean {
  return isPastWatchUntil(quote, nowMs) && sinceFirstLateResponseMs >= WATCH_END_CONFIRMATION_MS;
}

/** Returns whether the watch period is over. A response of the mint ends the watch itself. */
export function isPastWatchUntil(quote: QuoteStatus, nowMs: number): boolean {
  return nowMs >= (computeWatchUntilMs(quote) ?? 0);
}

export interface PollContext {
  sincePollMs: number;
  /** How long the current state had been known at that poll. */
  stateAgeAtPollMs: number;
  /** Whether a subscription covers the quote. */
  isSubscribed: boolean;
}

/**
 * Returns how urgently a quote should be polled: 0 if it is not due, otherwise the number of
 * intervals it has waited, times a weight. Waiting raises the urgency, so no quote starves.
 *
 * @param nowMs milliseconds since 1970
 */
export function computePollUrgency(
  quote: QuoteStatus,
  nowMs: number,
  context: PollContext,
): number {
  const { sincePollMs } = context;
  const elapsedIntervals = sincePollMs / computePollIntervalMs(quote, nowMs, context);
  const sinceExpiryMs = nowMs - quote.expiresAtMs - POST_EXPIRY_POLL_DELAY_MS;
  const isJustExpired =
    quote.state === 'UNPAID' && sinceExpiryMs >= 0 && sincePollMs > sinceExpiryMs;
  const isYoung = quote.state === 'UNPAID' && nowMs - quote.createdAtMs < YOUNG_QUOTE_AGE_MS;
  const weight = isYoung || isJustExpired || quote.state === 'INFLIGHT' ? LIKELY_PAYMENT_WEIGHT : 1;
  return elapsedIntervals >= 1 || isJustExpired ? Math.max(1, elapsedIntervals) * weight : 0;
}

/** Returns how long after a poll the next one is due. */
export function computePollIntervalMs(
  quote: QuoteStatus,
  nowMs: number,
  { stateAgeAtPollMs, isSubscribed }: Pick<PollContext, 'stateAgeAtPollMs' | 'isSubscribed'>,
): number {
  switch (quote.state) {
    case 'INFLIGHT': {
      const growingMs = Math.max(stateAgeAtPollMs, MIN_INFLIGHT_INTERVAL_MS);
      return Math.min(growingMs, MAX_INFLIGHT_INTERVAL_MS);
    }
    case 'PAID':
      return selectIntervalMs(PAID_STEPS, nowMs - (quote.paidAtMs ?? nowMs), isSubscribed);
    default: {
      const ageMs = nowMs - quote.createdAtMs;
      const sinceExpiryMs = nowMs - quote.expiresAtMs;
      // The mint's clock may be wrong, so a young quote is polled often whatever its expiry.
      return sinceExpiryMs < POST_EXPIRY_POLL_DELAY_MS || ageMs < YOUNG_QUOTE_AGE_MS
        ? selectIntervalMs(UNPAID_STEPS, ageMs, isSubscribed)
        : selectIntervalMs(EXPIRED_STEPS, sinceExpiryMs, isSubscribed);
    }
  }
}

function selectIntervalMs(
  steps: readonly PollStep[],
  ageMs: number,
  isSubscribed: boolean,
): number {
  const current = steps.find(({ maxAgeMs }) => ageMs < maxAgeMs) as PollStep;
  return isSubscribed ? current.subscribedIntervalMs : current.intervalMs;
}
