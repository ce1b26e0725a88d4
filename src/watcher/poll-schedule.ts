import { computeWatchUntilMs, type QuoteStatus } from '../quotes/quote-state.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/**
 * After the watch period of a quote, the service stops watching it when the mint has reported the unchanged state twice,
 * at least this long apart: this process's clock may have jumped ahead, or the mint's Lightning node been offline.
 */
export const WATCH_END_CONFIRMATION_MS = HOUR_MS;

/** A payment that was sent just before the expiry may take this long to arrive. */
const POST_EXPIRY_POLL_DELAY_MS = 5 * SECOND_MS;
/** Most payments arrive within this time after the invoice was created. */
const YOUNG_QUOTE_AGE_MS = 10 * MINUTE_MS;

/** If no subscription covers the quote. Otherwise intervals are five times as long, and at most twice this. */
const MAX_INTERVAL_MS = 2 * HOUR_MS;
/** From the creation. A poll finds a payment within a twentieth of the age. */
const UNPAID_INTERVALS = { ageDivisor: 20, minMs: 4 * SECOND_MS };
/** From the expiry. */
const EXPIRED_INTERVALS = { ageDivisor: 3, minMs: MINUTE_MS };
/** From the payment. cdk wallets stall while the list shows PAID for a quote that another device has minted. */
const PAID_INTERVALS = { ageDivisor: 30, minMs: 15 * SECOND_MS };
/** From the change to INFLIGHT (the mint is signing). Short, because wallets treat such a quote as unpaid. */
const INFLIGHT_INTERVALS = { ageDivisor: 1, minMs: 3 * SECOND_MS };

/** Lightning nodes reject payments of expired invoices; the usual day is for mints whose clock or Lightning node fails. */
const CROWDED_LATE_PAYMENT_GRACE_MS = 10 * MINUTE_MS;

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
    : { dueInMs, isUrgent: intervalMs <= UNPAID_INTERVALS.minMs };
}

export function computePollIntervalMs(
  quote: QuoteStatus,
  nowMs: number,
  { stateAgeAtPollMs, isCovered }: Pick<PollContext, 'stateAgeAtPollMs' | 'isCovered'>,
): number {
  switch (quote.state) {
    case 'INFLIGHT':
      return growInterval(INFLIGHT_INTERVALS, stateAgeAtPollMs, false);
    case 'PAID':
      return growInterval(PAID_INTERVALS, nowMs - (quote.paidAtMs ?? nowMs), isCovered);
    default: {
      const ageMs = nowMs - quote.createdAtMs;
      const sinceExpiryMs = nowMs - quote.expiresAtMs;
      // The mint may return a wrong expiry, so it does not slow down the polls of a young quote.
      return sinceExpiryMs < POST_EXPIRY_POLL_DELAY_MS || ageMs < YOUNG_QUOTE_AGE_MS
        ? growInterval(UNPAID_INTERVALS, ageMs, isCovered)
        : growInterval(EXPIRED_INTERVALS, sinceExpiryMs, isCovered);
    }
  }
}

function growInterval(
  { ageDivisor, minMs }: { ageDivisor: number; minMs: number },
  ageMs: number,
  isCovered: boolean,
): number {
  const intervalMs = Math.min(Math.max(Math.floor(ageMs / ageDivisor), minMs), MAX_INTERVAL_MS);
  return isCovered ? Math.min(5 * intervalMs, 2 * MAX_INTERVAL_MS) : intervalMs;
}
