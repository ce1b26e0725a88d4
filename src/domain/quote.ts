/**
 * A mint quote as this service keeps it: one expected payment to one recipient.
 *
 * `UNPAID` and `EXPIRED` are internal; a recipient's list shows the other three (spec.md section 3).
 */
export type QuoteState = 'UNPAID' | 'EXPIRED' | 'INFLIGHT' | 'PAID' | 'ISSUED';

/** The states that a recipient's quote list shows: the payment has arrived. */
export type PaidState = Extract<QuoteState, 'INFLIGHT' | 'PAID' | 'ISSUED'>;

/** What a mint can say of a quote. `PENDING`, while it signs, is our `INFLIGHT`: the payment is there. */
export type ObservedState = Exclude<QuoteState, 'EXPIRED'>;

/**
 * What a mint said of one quote, in a read, a batch check or a socket notification.
 *
 * Only the state may change after creation: later answers of some mints drop expiry and pubkey.
 * `amountSat` and `request` are there to be compared, never to be stored.
 */
export interface QuoteObservation {
  quoteId: string;
  state: ObservedState;
  amountSat?: number;
  request?: string;
}

/** Whether a quote in this state is shown to its recipient. */
export function isPaidState(state: QuoteState): state is PaidState {
  return state === 'INFLIGHT' || state === 'PAID' || state === 'ISSUED';
}
