import type { QuoteState } from '../database/schema.ts';
import type { ObservedState } from '../mints/quote-responses.ts';

/** How far `paidAt` may be ahead of the clock. If it is further ahead, wallets stop finding new payments. */
const MAX_PAID_AT_AHEAD_MS = 5_000;

/** Wallets ask for payments after the `paidAt` second of the last one, so two payments should not share a second. */
const MIN_PAID_AT_SPACING_MS = 1_000;

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
 * payment. If `paidAt` would then be more than {@link MAX_PAID_AT_AHEAD_MS} ahead of the clock, payments are closer
 * together. `paidAt` always increases, because the order of the list and the parameter `since` depend on it.
 *
 * @param lastPaidAtMs the recipient's newest `paidAt`; null before the first payment
 * @returns milliseconds since 1970
 */
export function computeNextPaidAtMs(lastPaidAtMs: number | null, nowMs: number): number {
  const lastMs = lastPaidAtMs ?? Number.NEGATIVE_INFINITY;
  const spacedMs = Math.max(nowMs, lastMs + MIN_PAID_AT_SPACING_MS);
  return Math.max(Math.min(spacedMs, nowMs + MAX_PAID_AT_AHEAD_MS), lastMs + 1);
}

/**
 * Returns the date of a zap receipt in milliseconds since 1970: the payment's `paidAt`, but at most
 * {@link MAX_PAID_AT_AHEAD_MS} ahead of a clock that was set back, because relays reject future events.
 */
export function computeReceiptCreatedAtMs(paidAtMs: number, nowMs: number): number {
  return Math.min(paidAtMs, nowMs + MAX_PAID_AT_AHEAD_MS);
}
