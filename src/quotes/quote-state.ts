import type { QuoteState } from '../database/schema.ts';
import type { ObservedState } from '../mints/quote-responses.ts';

/** How far `paidAt` may run ahead of the clock: wallets stall if it is further in the future. */
const MAX_PAID_AT_AHEAD_MS = 5_000;

/** Wallets use `paidAt` seconds as a watermark, so payments should not share one. */
const MIN_PAID_AT_SPACING_MS = 1_000;

const DAY_MS = 24 * 60 * 60 * 1000;

/** Lightning payments can settle late, and mints can report them late. */
const LATE_PAYMENT_GRACE_MS = DAY_MS;

/** A paid quote that is not collected within this time is no longer polled. */
const PAID_WATCH_MS = 7 * DAY_MS;

/** The state of a quote, and its times in milliseconds since 1970. */
export interface QuoteStatus {
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  /** Null before the payment was recorded. */
  paidAtMs: number | null;
}

/** The states that a recipient's list shows: the payment has arrived. */
export type PaidQuoteState = Extract<QuoteState, 'INFLIGHT' | 'PAID' | 'ISSUED'>;

export function isPaidQuoteState(state: QuoteState): state is PaidQuoteState {
  return state === 'INFLIGHT' || state === 'PAID' || state === 'ISSUED';
}

/** Returns until when an unpaid quote is watched (milliseconds since 1970). */
export function computeUnpaidWatchUntilMs(
  quote: Pick<QuoteStatus, 'createdAtMs' | 'expiresAtMs'>,
): number {
  return Math.max(quote.expiresAtMs, quote.createdAtMs) + LATE_PAYMENT_GRACE_MS;
}

/** Returns until when a quote is watched (milliseconds since 1970); null if it is not. */
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
 * - `payment_received`: first observation of a payment; the quote enters the recipient's list.
 * - `state_changed`: a listed quote changed its state.
 * - `expired`: the mint still reports the quote as unpaid, long after the invoice expired.
 * - `unchanged`: nothing changed.
 * - `state_regression`: the mint contradicts an earlier report; a paid quote never becomes unpaid.
 */
export type QuoteTransition =
  | { outcome: 'payment_received' | 'state_changed' | 'expired'; state: QuoteState }
  | { outcome: 'unchanged' | 'state_regression' };

/**
 * Decides what an observation changes.
 *
 * @param isGracePeriodOver whether the wait for a late payment is over
 */
export function decideTransition(
  current: QuoteState,
  observed: ObservedState,
  isGracePeriodOver: boolean,
): QuoteTransition {
  if (observed === current) {
    return current === 'UNPAID' && isGracePeriodOver
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
 * Returns the `paidAt` of a recipient's next payment: now, but at least a second after the previous
 * payment, up to {@link MAX_PAID_AT_AHEAD_MS} ahead of the clock. Beyond that it still strictly
 * increases, because the list's order and `since` rely on it.
 *
 * @param lastPaidAtMs the recipient's newest `paidAt`, null before the first payment
 * @returns milliseconds since 1970
 */
export function computeNextPaidAtMs(lastPaidAtMs: number | null, nowMs: number): number {
  const lastMs = lastPaidAtMs ?? Number.NEGATIVE_INFINITY;
  const spacedMs = Math.max(nowMs, lastMs + MIN_PAID_AT_SPACING_MS);
  return Math.max(Math.min(spacedMs, nowMs + MAX_PAID_AT_AHEAD_MS), lastMs + 1);
}

/**
 * Returns the date of a zap receipt in milliseconds since 1970: the payment's `paidAt`. If the
 * clock was set back, the date is limited to {@link MAX_PAID_AT_AHEAD_MS} ahead, because relays
 * reject future events.
 */
export function computeReceiptCreatedAtMs(paidAtMs: number, nowMs: number): number {
  return Math.min(paidAtMs, nowMs + MAX_PAID_AT_AHEAD_MS);
}
