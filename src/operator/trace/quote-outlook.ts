import type { QuoteState } from '../../database/schema.ts';

/**
 * What happens next with a quote.
 *
 * - `awaiting_payment`: its invoice can be paid until `untilMs`.
 * - `awaiting_late_payment`: its invoice has expired; the mint is polled for a late payment until `untilMs`.
 * - `given_up`: it expired unpaid, and the mint is no longer polled.
 * - `being_collected`: it was paid, and the mint is signing.
 * - `awaiting_collection`: it was paid; the mint is polled until `untilMs`.
 * - `left_uncollected`: it was paid, and the mint is no longer polled.
 * - `collected`: nothing more happens.
 */
export type QuoteOutlook =
  | {
      kind: 'awaiting_payment' | 'awaiting_late_payment' | 'awaiting_collection';
      /** Milliseconds since 1970. */
      untilMs: number;
    }
  | { kind: 'given_up' | 'being_collected' | 'left_uncollected' | 'collected' };

/** Decides what a quote waits for. Times in milliseconds since 1970. */
export function quoteOutlook(
  quote: {
    state: QuoteState;
    expiresAtMs: number;
    /** Null if the quote is no longer watched. */
    watchUntilMs: number | null;
  },
  nowMs: number,
): QuoteOutlook {
  const { state, expiresAtMs, watchUntilMs } = quote;
  switch (state) {
    case 'UNPAID':
      if (nowMs < expiresAtMs) {
        return { kind: 'awaiting_payment', untilMs: expiresAtMs };
      }
      return watchUntilMs === null
        ? { kind: 'given_up' }
        : { kind: 'awaiting_late_payment', untilMs: watchUntilMs };
    case 'EXPIRED':
      return { kind: 'given_up' };
    case 'ISSUED':
      return { kind: 'collected' };
    case 'INFLIGHT':
      return watchUntilMs === null ? { kind: 'left_uncollected' } : { kind: 'being_collected' };
    case 'PAID':
      return watchUntilMs === null
        ? { kind: 'left_uncollected' }
        : { kind: 'awaiting_collection', untilMs: watchUntilMs };
  }
}
