import { computeWatchUntilMs, type QuoteStatus } from '../quotes/quote-state.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/**
 * After the watch period of a quote, the service stops watching it when the mint has reported the unchanged state twice,
 * at least this long apart: this process's clock may have jumped ahead, or the mint's Lightning node been offline.
 */
export const WATCH_END_CONFIRMATION_MS = HOUR_MS;

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

const LAST_STEP: PollStep = {
  untilMs: Number.POSITIVE_INFINITY,
  intervalMs: 2 * HOUR_MS,
  coveredIntervalMs: 4 * HOUR_MS,
};

const UNPAID_STEPS: readonly PollStep[] = [
  { untilMs: MINUTE_MS, intervalMs: 4 * SECOND_MS, coveredIntervalMs: 20 * SECOND_MS },
  { untilMs: YOUNG_QUOTE_AGE_MS, intervalMs: 15 * SECOND_MS, coveredIntervalMs: MINUTE_MS },
  { untilMs: HOUR_MS, intervalMs: MINUTE_MS, coveredIntervalMs: 5 * MINUTE_MS },
  { untilMs: DAY_MS, intervalMs: 10 * MINUTE_MS, coveredIntervalMs: 30 * MINUTE_MS },
  LAST_STEP,
];

const EXPIRED_STEPS: readonly PollStep[] = [
  { untilMs: 10 * MINUTE_MS, intervalMs: MINUTE_MS, coveredIntervalMs: 2 * MINUTE_MS },
  { untilMs: HOUR_MS, intervalMs: 10 * MINUTE_MS, coveredIntervalMs: 20 * MINUTE_MS },
  LAST_STEP,
];

/** Wallets that are online mint the ecash immediately. */
const PAID_STEPS: readonly PollStep[] = [
  { untilMs: 2 * MINUTE_MS, intervalMs: 15 * SECOND_MS, coveredIntervalMs: 45 * SECOND_MS },
  { untilMs: HOUR_MS, intervalMs: MINUTE_MS, coveredIntervalMs: 2 * MINUTE_MS },
  { untilMs: DAY_MS, intervalMs: 10 * MINUTE_MS, coveredIntervalMs: 30 * MINUTE_MS },
  LAST_STEP,
];

/** Quotes with at most this interval are polled before others: many of their payments arrive now. */
const MAX_URGENT_INTERVAL_MS = 4 * SECOND_MS;

/**
 * How long after its expiry an unpaid quote is watched while the mint has many watched quotes. Lightning nodes reject
 * payments of expired invoices, so the usual day is for mints whose clock or Lightning node fails.
 */
const CROWDED_LATE_PAYMENT_GRACE_MS = 10 * MINUTE_MS;

/** @param isCrowded whether the mint has many watched quotes */
export function isWatchPeriodOver(quote: QuoteStatus, nowMs: number, isCrowded: boolean): boolean {
  const watchUntilMs = computeWatchUntilMs(quote) ?? 0;
  return isCrowded && quote.state === 'UNPAID'
    ? nowMs >= Math.max(quote.expiresAtMs, quote.createdAtMs) + CROWDED_LATE_PAYMENT_GRACE_MS
    : nowMs >= watchUntilMs;
}

export interface PollContext {
  sincePollMs: number;
  /** How long the current state had been known at the last poll. */
  stateAgeAtPollMs: number;
  /** Whether a subscription covers the quote. */
  isCovered: boolean;
}

/** Returns when a quote should be polled, in milliseconds from now, and whether it goes before other quotes. */
export function computeNextPoll(
  quote: QuoteStatus,
  nowMs: number,
  context: PollContext,
): { dueInMs: number; isUrgent: boolean } {
  const { sincePollMs } = context;
  const intervalMs = computePollIntervalMs(quote, nowMs, context);
  const dueInMs = intervalMs - sincePollMs;
  const postExpiryPollInMs = quote.expiresAtMs + POST_EXPIRY_POLL_DELAY_MS - nowMs;
  const needsPostExpiryPoll = quote.state === 'UNPAID' && postExpiryPollInMs > -sincePollMs;
  return needsPostExpiryPoll && postExpiryPollInMs < dueInMs
    ? { dueInMs: postExpiryPollInMs, isUrgent: postExpiryPollInMs > -MINUTE_MS }
    : { dueInMs, isUrgent: intervalMs <= MAX_URGENT_INTERVAL_MS };
}

/** If the quote is INFLIGHT, the interval grows with the state's age. */
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
