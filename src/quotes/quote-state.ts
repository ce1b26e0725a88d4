import type { QuoteState } from '../database/schema.ts';
import type { ObservedState } from '../mints/quote-responses.ts';

/** Some wallets ignore payments that are not later than their newest one, in whole seconds. */
const PAID_AT_SPACING_MS = 1_000;

/** How far the spacing may move `paidAt` ahead of the clock. It limits how late a payment of a burst is listed. */
export const MAX_SPACED_AHEAD_MS = 60_000;

/** How far ahead of the clock wallets and relays accept times. */
const MAX_LISTED_AHEAD_MS = 5_000;

/** How far `paidAt` may exceed {@link MAX_SPACED_AHEAD_MS}: 5,000 payments in the same moment, or clock differences. */
const SPACED_AHEAD_TOLERANCE_MS = 5_000;

const DAY_MS = 24 * 60 * 60 * 1000;

/** Lightning payments can arrive late, and mints can report them late. */
const LATE_PAYMENT_GRACE_MS = DAY_MS;

/** How long a paid quote is watched if no wallet mints its ecash. */
const PAID_WATCH_MS = 7 * DAY_MS;

/** The state of a quote, and its times in milliseconds since 1970. */
export interface QuoteStatus {
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  /** Null before the payment was recorded. */
  paidAtMs: number | null;
}

/** The states after the payment. A recipient's list shows quotes in these states. */
export type PaidQuoteState = Extract<QuoteState, 'INFLIGHT' | 'PAID' | 'ISSUED'>;

export function isPaidQuoteState(state: QuoteState): state is PaidQuoteState {
  return state === 'INFLIGHT' || state === 'PAID' || state === 'ISSUED';
}

/** Returns when the watch period of an unpaid quote ends (milliseconds since 1970). */
export function computeUnpaidWatchUntilMs(
  quote: Pick<QuoteStatus, 'createdAtMs' | 'expiresAtMs'>,
): number {
  return Math.max(quote.expiresAtMs, quote.createdAtMs) + LATE_PAYMENT_GRACE_MS;
}

/** Returns when the watch period of a quote ends (milliseconds since 1970); null if the quote is not watched. */
export function computeWatchUntilMs(quote: QuoteStatus): number | null {
  switch (quote.state) {
    case 'UNPAID':
      return computeUnpaidWatchUntilMs(quote);
    case 'INFLIGHT':
    case 'PAID':
      return (quote.paidAtMs ?? quote.createdAtMs) + PAID_WATCH_MS;
    case 'ISSUED':
    case 'EXPIRED':
      return null;
  }
}

/**
 * What an observation means for a stored quote.
 *
 * - `payment_received`: the mint reports the payment for the first time. The quote enters the recipient's list.
 * - `state_changed`: a quote that is in the recipient's list changed its state.
 * - `expired`: the mint still reports the quote as unpaid, long after the invoice expired.
 * - `unchanged`: the mint reports nothing new.
 * - `state_regression`: the mint reports an earlier state, which is impossible. A paid quote never becomes unpaid.
 */
export type QuoteTransition =
  | { outcome: 'payment_received' | 'state_changed' | 'expired'; state: QuoteState }
  | { outcome: 'unchanged' | 'state_regression' };

/**
 * Decides what an observation changes.
 *
 * @param shouldEndWatch whether the service no longer waits for a late payment
 */
export function decideTransition(
  current: QuoteState,
  observed: ObservedState,
  shouldEndWatch: boolean,
): QuoteTransition {
  if (observed === current) {
    return current === 'UNPAID' && shouldEndWatch
      ? { outcome: 'expired', state: 'EXPIRED' }
      : { outcome: 'unchanged' };
  }
  if (isPaidQuoteState(current)) {
    return current === 'ISSUED' || observed === 'UNPAID'
      ? { outcome: 'state_regression' }
      : { outcome: 'state_changed', state: observed };
  }
  return observed === 'UNPAID'
    ? { outcome: 'unchanged' }
    : { outcome: 'payment_received', state: observed };
}

/**
 * Returns the `paidAt` of a recipient's next payment: the current time, but at least a second after the previous
 * payment. If `paidAt` would then be more than {@link MAX_SPACED_AHEAD_MS} ahead of the clock, payments share seconds.
 * `paidAt` always increases, because the order of the list and the parameter `since` depend on it.
 *
 * @param lastPaidAtMs the recipient's newest `paidAt`; null before the first payment
 * @returns milliseconds since 1970
 */
export function computeNextPaidAtMs(lastPaidAtMs: number | null, nowMs: number): number {
  const lastMs = lastPaidAtMs ?? Number.NEGATIVE_INFINITY;
  const spacedMs = Math.max(nowMs, lastMs + PAID_AT_SPACING_MS);
  return Math.max(Math.min(spacedMs, nowMs + MAX_SPACED_AHEAD_MS), lastMs + 1);
}

/**
 * Returns when a payment is listed: {@link MAX_LISTED_AHEAD_MS} before the second of its `paidAt`. Payments that share
 * a second are listed at the same time, when no further payment can get this second.
 *
 * @returns milliseconds since 1970
 */
export function computeListedAtMs(paidAtMs: number): number {
  return Math.floor(paidAtMs / 1000) * 1000 - MAX_LISTED_AHEAD_MS;
}

/**
 * Returns which payments of a recipient are not listed yet: those from `fromMs`, unless the newest one is at `untilMs`
 * or later. In that case, the clock was set back, and all payments are listed.
 */
export function computeUnlistedRange(nowMs: number): { fromMs: number; untilMs: number } {
  return {
    fromMs: (Math.floor((nowMs + MAX_LISTED_AHEAD_MS) / 1000) + 1) * 1000,
    untilMs: nowMs + MAX_SPACED_AHEAD_MS + SPACED_AHEAD_TOLERANCE_MS,
  };
}

/**
 * Returns the date of a zap receipt in milliseconds since 1970: the payment's `paidAt`, but at most
 * {@link MAX_LISTED_AHEAD_MS} ahead of the clock, because relays reject future events.
 */
export function computeReceiptCreatedAtMs(paidAtMs: number, nowMs: number): number {
  return Math.min(paidAtMs, nowMs + MAX_LISTED_AHEAD_MS);
}
