import { computeWatchUntilMs, type QuoteStatus } from '../quotes/quote-state.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/**
 * When the watch period of a quote is over, the service stops watching it only after the mint has reported the
 * unchanged state twice, at least this long apart. The first report may be wrong: this process's clock may have jumped
 * ahead, or the mint's Lightning node may have been offline.
 */
const WATCH_END_CONFIRMATION_MS = HOUR_MS;

/** A payment that was sent just before the expiry may take this long to arrive. */
const POST_EXPIRY_POLL_DELAY_MS = 5 * SECOND_MS;

/** Most payments arrive within this time after the invoice was created. */
const YOUNG_QUOTE_AGE_MS = 10 * MINUTE_MS;

/** Short, because wallets treat an INFLIGHT quote (paid, the mint is signing) as unpaid. */
const MIN_INFLIGHT_INTERVAL_MS = 3 * SECOND_MS;
const MAX_INFLIGHT_INTERVAL_MS = HOUR_MS;

/** How often a quote is polled until `untilMs` after its creation, expiry or payment. */
interface PollStep {
  untilMs: number;
  intervalMs: number;
  /** While a subscription covers the quote. */
  coveredIntervalMs: number;
}

/** The last step of every list. */
const LAST_STEP: PollStep = {
  untilMs: Number.POSITIVE_INFINITY,
  intervalMs: 2 * HOUR_MS,
  coveredIntervalMs: 4 * HOUR_MS,
};

/** Steps by the time since the creation. */
const UNPAID_STEPS: readonly PollStep[] = [
  { untilMs: MINUTE_MS, intervalMs: 4 * SECOND_MS, coveredIntervalMs: 20 * SECOND_MS },
  { untilMs: YOUNG_QUOTE_AGE_MS, intervalMs: 15 * SECOND_MS, coveredIntervalMs: MINUTE_MS },
  { untilMs: HOUR_MS, intervalMs: MINUTE_MS, coveredIntervalMs: 5 * MINUTE_MS },
  { untilMs: DAY_MS, intervalMs: 10 * MINUTE_MS, coveredIntervalMs: 30 * MINUTE_MS },
  LAST_STEP,
];

/** Steps by the time since the expiry. */
const EXPIRED_STEPS: readonly PollStep[] = [
  { untilMs: 10 * MINUTE_MS, intervalMs: MINUTE_MS, coveredIntervalMs: 2 * MINUTE_MS },
  { untilMs: HOUR_MS, intervalMs: 10 * MINUTE_MS, coveredIntervalMs: 20 * MINUTE_MS },
  LAST_STEP,
];

/** Steps by the time since the payment. Wallets that are online mint the ecash immediately. */
const PAID_STEPS: readonly PollStep[] = [
  { untilMs: 2 * MINUTE_MS, intervalMs: 15 * SECOND_MS, coveredIntervalMs: 45 * SECOND_MS },
  { untilMs: HOUR_MS, intervalMs: MINUTE_MS, coveredIntervalMs: 2 * MINUTE_MS },
  { untilMs: DAY_MS, intervalMs: 10 * MINUTE_MS, coveredIntervalMs: 30 * MINUTE_MS },
  LAST_STEP,
];

/** Multiplies the urgency of quotes that may just have been paid. */
const LIKELY_PAYMENT_WEIGHT = 8;

/**
 * Returns whether the service stops watching a quote after a response without a state change.
 *
 * @param sinceFirstPostWatchResponseMs time since the mint's first response after the watch period
 */
export function shouldEndWatch(
  quote: QuoteStatus,
  nowMs: number,
  sinceFirstPostWatchResponseMs: number,
): boolean {
  return (
    isWatchPeriodOver(quote, nowMs) && sinceFirstPostWatchResponseMs >= WATCH_END_CONFIRMATION_MS
  );
}

/** Returns whether the watch period is over. {@link shouldEndWatch} decides when the service stops watching. */
export function isWatchPeriodOver(quote: QuoteStatus, nowMs: number): boolean {
  return nowMs >= (computeWatchUntilMs(quote) ?? 0);
}

export interface PollContext {
  /** The time since the quote was last polled. */
  sincePollMs: number;
  /** How long the current state had been known at the last poll. */
  stateAgeAtPollMs: number;
  /** Whether a subscription covers the quote. */
  isCovered: boolean;
}

/**
 * Returns how urgently a quote should be polled: 0 if the quote is not due, otherwise the number of poll intervals
 * since its last poll, times a weight. Waiting raises the urgency, so every quote is polled eventually.
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
  const isUnpaid = quote.state === 'UNPAID';
  const sincePostExpiryPollDueMs = nowMs - quote.expiresAtMs - POST_EXPIRY_POLL_DELAY_MS;
  const needsPostExpiryPoll =
    isUnpaid && sincePostExpiryPollDueMs >= 0 && sincePollMs > sincePostExpiryPollDueMs;
  const isYoung = isUnpaid && nowMs - quote.createdAtMs < YOUNG_QUOTE_AGE_MS;
  const isPaymentLikely = isYoung || needsPostExpiryPoll || quote.state === 'INFLIGHT';
  const weight = isPaymentLikely ? LIKELY_PAYMENT_WEIGHT : 1;
  return elapsedIntervals >= 1 || needsPostExpiryPoll ? Math.max(1, elapsedIntervals) * weight : 0;
}

/** Returns the time from one poll of a quote to the next. If the quote is INFLIGHT, it grows with the state's age. */
export function computePollIntervalMs(
  quote: QuoteStatus,
  nowMs: number,
  { stateAgeAtPollMs, isCovered }: Pick<PollContext, 'stateAgeAtPollMs' | 'isCovered'>,
): number {
  switch (quote.state) {
    case 'INFLIGHT':
      return Math.min(
        Math.max(stateAgeAtPollMs, MIN_INFLIGHT_INTERVAL_MS),
        MAX_INFLIGHT_INTERVAL_MS,
      );
    case 'PAID':
      return selectIntervalMs(PAID_STEPS, nowMs - (quote.paidAtMs ?? nowMs), isCovered);
    default: {
      const ageMs = nowMs - quote.createdAtMs;
      const sinceExpiryMs = nowMs - quote.expiresAtMs;
      // The mint may return a wrong expiry, so it does not slow down the polls of a young quote.
      return sinceExpiryMs < POST_EXPIRY_POLL_DELAY_MS || ageMs < YOUNG_QUOTE_AGE_MS
        ? selectIntervalMs(UNPAID_STEPS, ageMs, isCovered)
        : selectIntervalMs(EXPIRED_STEPS, sinceExpiryMs, isCovered);
    }
  }
}

function selectIntervalMs(steps: readonly PollStep[], ageMs: number, isCovered: boolean): number {
  const step = steps.find(({ untilMs }) => ageMs < untilMs) as PollStep;
  return isCovered ? step.coveredIntervalMs : step.intervalMs;
}
