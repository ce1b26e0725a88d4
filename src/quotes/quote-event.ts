import type { ObservedState, QuoteState } from './quote.ts';

/** An entry in the history of a quote, which shows operators where a payment is. */
export type QuoteEventDetail =
  /** The mint reported a new state, which was recorded. */
  | { kind: 'state'; from: QuoteState; to: QuoteState; source: 'socket' | 'poll' }
  /** The mint reported something that was rejected. */
  | { kind: 'disbelieved'; reason: 'another_amount_or_invoice' | 'backwards'; said: ObservedState }
  /** An `update` was sent to this many sockets of the recipient. */
  | { kind: 'told'; sockets: number };

export type QuoteEvent = QuoteEventDetail & {
  /** Milliseconds since 1970. */
  atMs: number;
};
