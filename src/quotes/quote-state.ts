import type { QuoteState } from '../database/schema.ts';
import type { ObservedState } from '../mints/quote-responses.ts';

/** A payment that is dated further ahead of the clock was recorded before the clock was set back. */
export const MAX_AHEAD_MS = 5_000;

const DAY_MS = 24 * 60 * 60 * 1000;

/** How long an unpaid quote is watched after its expiry. */
const LATE_PAYMENT_GRACE_MS = DAY_MS;

/** How long a paid quote is watched if no wallet mints its ecash. */
const PAID_WATCH_MS = 7 * DAY_MS;

/** What decides how long a quote is watched and how often it is polled. Times in milliseconds since 1970. */
export interface QuoteStatus {
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  paidAtMs: number | null;
}

export type PaidQuoteState = Extract<QuoteState, 'INFLIGHT' | 'PAID' | 'ISSUED'>;

export function isPaidQuoteState(state: QuoteState): state is PaidQuoteState {
  return state === 'INFLIGHT' || state === 'PAID' || state === 'ISSUED';
}

const STATE_ORDER: readonly QuoteState[] = ['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'];

export function isLaterState(state: QuoteState, earlierState: QuoteState): boolean {
  return STATE_ORDER.indexOf(state) > STATE_ORDER.indexOf(earlierState);
}

export function computeUnpaidWatchUntilMs(
  quote: Pick<QuoteStatus, 'createdAtMs' | 'expiresAtMs'>,
): number {
  return Math.max(quote.expiresAtMs, quote.createdAtMs) + LATE_PAYMENT_GRACE_MS;
}

/** Returns when the watch period of a quote ends (milliseconds since 1970); null if the quote is not watched. */
export function computeWatchUntilMs(quote: QuoteStatus): number | null {
  if (quote.state === 'ISSUED' || quote.state === 'EXPIRED') {
    return null;
  }
  return quote.state === 'UNPAID'
    ? computeUnpaidWatchUntilMs(quote)
    : (quote.paidAtMs ?? quote.createdAtMs) + PAID_WATCH_MS;
}

/** What an observation means for a stored quote. */
export interface QuoteTransition {
  outcome:
    | 'payment_received'
    /** Between two states of a paid quote. */
    | 'paid_state_changed'
    | 'expired'
    | 'unchanged'
    /** The mint reports an earlier state, which an honest mint never does. The quote keeps its state. */
    | 'state_regression';
  newState: QuoteState;
}

/** @param shouldEndWatch whether a quote that is still unpaid expires, because the service waits no longer */
export function decideTransition(
  current: QuoteState,
  observed: ObservedState,
  shouldEndWatch: boolean,
): QuoteTransition {
  if (observed === current) {
    return current === 'UNPAID' && shouldEndWatch
      ? { outcome: 'expired', newState: 'EXPIRED' }
      : { outcome: 'unchanged', newState: current };
  }
  if (isPaidQuoteState(current)) {
    return current === 'ISSUED' || observed === 'UNPAID'
      ? { outcome: 'state_regression', newState: current }
      : { outcome: 'paid_state_changed', newState: observed };
  }
  return observed === 'UNPAID'
    ? { outcome: 'unchanged', newState: current }
    : { outcome: 'payment_received', newState: observed };
}

/**
 * Returns the `paidAt` of a recipient's next payment (milliseconds since 1970): now, or later for two reasons. Wallets may
 * have read the current second, and some ignore payments that are not later than the newest one they know. And the
 * order of the list requires that no payment is dated before an earlier one.
 */
export function computePaidAtMs(
  { lastPaidAtMs, listedUntilMs }: { lastPaidAtMs: number | null; listedUntilMs: number },
  nowMs: number,
): number {
  return Math.max(nowMs, lastPaidAtMs ?? 0, listedUntilMs);
}

/** Returns the date of a zap receipt: that of the payment, but not far in the future, because relays reject such events. */
export function computeReceiptCreatedAtMs(paidAtMs: number, nowMs: number): number {
  return Math.min(paidAtMs, nowMs + MAX_AHEAD_MS);
}
