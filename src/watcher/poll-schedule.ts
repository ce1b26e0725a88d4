import { computeWatchUntilMs, type QuoteStatus } from '../quotes/quote-state.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/**
 * After the watch period of a quote, the mint must report its unchanged state twice, at least this long apart, before the
 * service stops watching it: this process's clock may have jumped ahead, or the mint's Lightning node been offline.
 */
export const WATCH_END_CONFIRMATION_MS = HOUR_MS;

/** A payment that was sent just before the expiry may take this long to arrive. */
const POST_EXPIRY_POLL_DELAY_MS = 5 * SECOND_MS;
/** Most payments arrive within this time after the invoice was created. */
const YOUNG_QUOTE_AGE_MS = 10 * MINUTE_MS;

// Poll intervals grow: each is the time from an event to the last poll, divided by `ageDivisor`, but at least `minMs`.
/** Since the creation. A poll finds a payment within a twentieth of the age. */
const UNPAID_INTERVALS = { ageDivisor: 20, minMs: 4 * SECOND_MS };
/** Since the expiry. */
const EXPIRED_INTERVALS = { ageDivisor: 3, minMs: MINUTE_MS };
/** Since the payment. cdk wallets stall while the list shows PAID for a quote that another device has minted. */
const PAID_INTERVALS = { ageDivisor: 30, minMs: 15 * SECOND_MS };
/** Since the change to INFLIGHT (the mint is signing). Short, because wallets treat such a quote as unpaid. */
const INFLIGHT_INTERVALS = { ageDivisor: 1, minMs: 3 * SECOND_MS };
const MAX_INTERVAL_MS = 2 * HOUR_MS;
/** If a subscription covers the quote, intervals are five times as long, and at most this. */
export const LONGEST_INTERVAL_MS = 2 * MAX_INTERVAL_MS;

/** How long an expired quote is watched at a mint with many quotes. Nodes reject late payments unless their clock is wrong. */
const CROWDED_LATE_PAYMENT_GRACE_MS = 10 * MINUTE_MS;

/** @param isCrowded whether the mint has many watched quotes, so that unpaid ones leave earlier */
export function isWatchPeriodOver(quote: QuoteStatus, nowMs: number, isCrowded: boolean): boolean {
  const watchUntilMs =
    isCrowded && quote.state === 'UNPAID'
      ? Math.max(quote.expiresAtMs, quote.createdAtMs) + CROWDED_LATE_PAYMENT_GRACE_MS
      : computeWatchUntilMs(quote);
  return nowMs >= (watchUntilMs ?? 0);
}

export interface PollContext {
  /** The time since the last poll. */
  sincePollMs: number;
  /** How long the current state had been known at the last poll. */
  stateAgeAtPollMs: number;
  /** Whether a subscription reports changes of the quote. */
  isCovered: boolean;
}

/** Returns when a quote should be polled, in milliseconds from now, and whether it goes before other quotes. */
export function computeNextPoll(
  quote: QuoteStatus,
  nowMs: number,
  context: PollContext,
): { dueInMs: number; isUrgent: boolean } {
  const lastPollAtMs = nowMs - context.sincePollMs;
  // The interval depends on the last poll. If it grew with the time since then, a poll that fails would delay the next one.
  const dueAtMs = lastPollAtMs + computePollIntervalMs(quote, lastPollAtMs, context);
  const postExpiryPollAtMs = quote.expiresAtMs + POST_EXPIRY_POLL_DELAY_MS;
  const needsPostExpiryPoll = quote.state === 'UNPAID' && lastPollAtMs < postExpiryPollAtMs;
  return needsPostExpiryPoll && postExpiryPollAtMs < dueAtMs
    ? { dueInMs: postExpiryPollAtMs - nowMs, isUrgent: nowMs < postExpiryPollAtMs + MINUTE_MS }
    : {
        dueInMs: dueAtMs - nowMs,
        isUrgent: computePollIntervalMs(quote, nowMs, context) <= UNPAID_INTERVALS.minMs,
      };
}

/** @param atMs the time of the last poll */
export function computePollIntervalMs(
  quote: QuoteStatus,
  atMs: number,
  { stateAgeAtPollMs, isCovered }: Pick<PollContext, 'stateAgeAtPollMs' | 'isCovered'>,
): number {
  if (quote.state === 'INFLIGHT') {
    return growInterval(INFLIGHT_INTERVALS, stateAgeAtPollMs);
  }
  const intervalMs =
    quote.state === 'PAID'
      ? growInterval(PAID_INTERVALS, atMs - (quote.paidAtMs ?? atMs))
      : computeUnpaidIntervalMs(quote, atMs);
  return isCovered ? Math.min(5 * intervalMs, LONGEST_INTERVAL_MS) : intervalMs;
}

function computeUnpaidIntervalMs(quote: QuoteStatus, atMs: number): number {
  const ageMs = atMs - quote.createdAtMs;
  const sinceExpiryMs = atMs - quote.expiresAtMs;
  // A young quote is polled often even if it has expired, because the mint may have returned a wrong expiry.
  return sinceExpiryMs < POST_EXPIRY_POLL_DELAY_MS || ageMs < YOUNG_QUOTE_AGE_MS
    ? growInterval(UNPAID_INTERVALS, ageMs)
    : growInterval(EXPIRED_INTERVALS, sinceExpiryMs);
}

function growInterval({ ageDivisor, minMs }: typeof UNPAID_INTERVALS, ageMs: number): number {
  return Math.min(Math.max(Math.floor(ageMs / ageDivisor), minMs), MAX_INTERVAL_MS);
}
