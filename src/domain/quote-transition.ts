import { isPaidState, type ObservedState, type QuoteState } from './quote.ts';

/**
 * What an observation means for the quote that we hold.
 *
 * - `payment_appeared`: the first sign of a payment; the quote enters the recipient's list.
 * - `state_changed`: a listed quote moved on.
 * - `expired`: the mint still says unpaid, long after the invoice ended.
 * - `unchanged`: nothing new.
 * - `backwards`: the mint takes back what it said before; a payment never becomes unpaid.
 */
export type Transition =
  | { outcome: 'payment_appeared' | 'state_changed' | 'expired'; state: QuoteState }
  | { outcome: 'unchanged' | 'backwards' };

/**
 * Decides what to do with a mint's word on a quote.
 *
 * @param current the state that we hold
 * @param observed the state that the mint reports now
 * @param isPastGrace whether the time in which a late payment is still waited for is over
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
