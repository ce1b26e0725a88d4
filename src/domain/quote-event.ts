import type { ObservedState, QuoteState } from './quote.ts';

/** What a mint or this service did with a quote, kept for whoever asks where a payment is. */
export type QuoteEventDetail =
  /** The mint said something new, and it was believed. */
  | { kind: 'state'; from: QuoteState; to: QuoteState; source: 'socket' | 'poll' }
  /** The mint said something that was not believed. */
  | { kind: 'disbelieved'; reason: 'another_amount_or_invoice' | 'backwards'; said: ObservedState }
  /** So many wallets that listened were sent an `update`. */
  | { kind: 'told'; sockets: number };

/** An event of one quote. */
export type QuoteEvent = QuoteEventDetail & {
  /** Milliseconds since 1970. */
  atMs: number;
};
