import { collectionWatchedUntilMs, latePaymentUntilMs } from './poll-schedule.ts';
import type { QuoteState } from './quote.ts';

/**
 * What is to happen next with a quote.
 *
 * - `awaiting_payment`: its invoice can still be paid, until then.
 * - `awaiting_late_payment`: its invoice has ended; until then, and one answer of the mint, a payment
 *   that settles late is waited for.
 * - `given_up`: it was not paid in that time either.
 * - `being_collected`: it was paid, and the mint is signing.
 * - `awaiting_collection`: it was paid; until then the mint is asked whether it was collected.
 * - `left_uncollected`: it was paid, and nobody asks about it any longer.
 * - `collected`: all is done.
 */
export type QuoteOutlook =
  | {
      kind: 'awaiting_payment' | 'awaiting_late_payment' | 'awaiting_collection';
      /** Milliseconds since 1970. */
      untilMs: number;
    }
  | { kind: 'given_up' | 'being_collected' | 'left_uncollected' | 'collected' };

/** Decides what a quote waits for. All times in milliseconds since 1970. */
export function quoteOutlook(
  quote: {
    state: QuoteState;
    createdAtMs: number;
    expiresAtMs: number;
    /** When its payment was recorded; null before. */
    paidAtMs: number | null;
    /** Null: no longer watched. */
    nextCheckAtMs: number | null;
  },
  nowMs: number,
): QuoteOutlook {
  switch (quote.state) {
    case 'UNPAID':
      return nowMs < quote.expiresAtMs
        ? { kind: 'awaiting_payment', untilMs: quote.expiresAtMs }
        : { kind: 'awaiting_late_payment', untilMs: latePaymentUntilMs(quote) };
    case 'EXPIRED':
      return { kind: 'given_up' };
    case 'ISSUED':
      return { kind: 'collected' };
    case 'INFLIGHT':
      return quote.nextCheckAtMs === null
        ? { kind: 'left_uncollected' }
        : { kind: 'being_collected' };
    case 'PAID':
      return quote.nextCheckAtMs === null
        ? { kind: 'left_uncollected' }
        : {
            kind: 'awaiting_collection',
            untilMs: collectionWatchedUntilMs(quote.paidAtMs ?? nowMs),
          };
  }
}
