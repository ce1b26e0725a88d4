import type { QuoteState } from '../database/schema.ts';
import type { ObservedState } from '../mints/quote-answer.ts';
/** How far a payment's time may run ahead of the clock: wallets stall on one further in the future. */
const MAX_AHEAD_MS = 5_000;

/** Wallets keep `paidAt`, in whole seconds, as a watermark: two payments should not share a second. */
const SPACING_MS = 1_000;

/** The states that a recipient's quote list shows: the payment has arrived. */
export type PaidState = Extract<QuoteState, 'INFLIGHT' | 'PAID' | 'ISSUED'>;

/** Whether a quote in this state is shown to its recipient. */
export function isPaidState(state: QuoteState): state is PaidState {
  return state === 'INFLIGHT' || state === 'PAID' || state === 'ISSUED';
}

/**
 * What an observation means for a stored quote.
 *
 * - `payment_appeared`: the first observation of a payment; the quote enters the recipient's list.
 * - `state_changed`: a listed quote changed its state.
 * - `expired`: the mint still reports the quote as unpaid, long after the invoice expired.
 * - `unchanged`: nothing new.
 * - `backwards`: the mint contradicts an earlier report; a paid quote never becomes unpaid.
 */
export type Transition =
  | { outcome: 'payment_appeared' | 'state_changed' | 'expired'; state: QuoteState }
  | { outcome: 'unchanged' | 'backwards' };

/**
 * Decides what an observation changes.
 *
 * @param current the stored state
 * @param observed the state that the mint reports now
 * @param isPastGrace whether the time to wait for a late payment is over
 */
export function transition(
  current: QuoteState,
  observed: ObservedState,
  isPastGrace: boolean,
): Transition {
  if (observed === current) {
    return current === 'UNPAID' && isPastGrace
      ? { outcome: 'expired', state: 'EXPIRED' }
      : { outcome: 'unchanged' };
  }
  if (!isPaidState(current)) {
    return observed === 'UNPAID'
      ? { outcome: 'unchanged' }
      : { outcome: 'payment_appeared', state: observed };
  }
  if (current === 'ISSUED' || observed === 'UNPAID') {
    return { outcome: 'backwards' };
  }
  return { outcome: 'state_changed', state: observed };
}

/**
 * Returns the `paidAt` of a recipient's next payment: now, but at least a second after the previous one if that is within
 * {@link MAX_AHEAD_MS} of the clock. Beyond that it still strictly increases, because the list's order and `since` rely on
 * it.
 *
 * @param lastPaidAtMs the recipient's newest `paidAt`, null before the first payment
 * @returns milliseconds since 1970
 */
export function nextPaidAtMs(lastPaidAtMs: number | null, nowMs: number): number {
  if (lastPaidAtMs === null) {
    return nowMs;
  }
  const spaced = Math.max(nowMs, lastPaidAtMs + SPACING_MS);
  return Math.max(Math.min(spaced, nowMs + MAX_AHEAD_MS), lastPaidAtMs + 1);
}

/**
 * Returns the date of a zap's receipt: its payment's `paidAt`, limited to {@link MAX_AHEAD_MS} ahead of a clock that was
 * set back, because relays reject events of the future for good.
 *
 * @returns milliseconds since 1970
 */
export function receiptDateMs(paidAtMs: number, nowMs: number): number {
  return Math.min(paidAtMs, nowMs + MAX_AHEAD_MS);
}
