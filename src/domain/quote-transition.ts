import { isPaidState, type ObservedState, type QuoteState } from './quote.ts';

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
