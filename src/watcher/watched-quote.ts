import { OPERATOR_MINT_LIMITS } from '../mints/limits.ts';
import type { SourcedObservation } from '../quotes/decide-observation.ts';
import type { WatchedQuoteRow } from '../quotes/watched-quote-store.ts';

/** The `batchLimit` of a quote that may be in batches of any size: no batch contains more. */
export const NO_BATCH_LIMIT = OPERATOR_MINT_LIMITS.maxPollBatchSize;

/** The heaps of `PollOrder`. Quotes in `alone` are in no batch. */
export type HeapName = 'urgent' | 'normal' | 'suspect' | 'alone';

export type WatchedQuote = ReturnType<typeof createWatchedQuote>;

/** Creates a watched quote. Its times that are not in the row are monotonic, and whole numbers, which take less memory. */
export function createWatchedQuote(row: WatchedQuoteRow, nowMs: number, lastPolledAtMs: number) {
  return {
    id: row.id,
    quoteId: row.quoteId,
    state: row.state,
    createdAtMs: row.createdAtMs,
    expiresAtMs: row.expiresAtMs,
    paidAtMs: row.paidAtMs,
    dueAtMs: 0,
    /** Null while the quote is polled: {@link isBeingPolled}. */
    heap: null as HeapName | null,
    heapIndex: -1,
    lastPolledAtMs,
    stateSinceMs: nowMs,
    /** The next poll is not due earlier, whatever the schedule says. */
    notBeforeMs: nowMs,
    /** How many quotes a batch with it may have, because the mint failed for a larger one; 0: it is read alone. */
    batchLimit: NO_BATCH_LIMIT,
    subscribedAtMs: null as number | null,
    /** Whether the subscription has reported a state. cdk and Nutshell also confirm subscriptions that report nothing. */
    isCovered: false,
    firstResponseAfterWatchPeriodAtMs: null as number | null,
    /** Whether a poll has found the quote `PAID` some time after its expiry. */
    wasPaidAfterExpiry: false,
    /** What the mint has reported and is not recorded yet; only the newest report. */
    report: null as SourcedObservation | null,
    /** How many recorded reports changed the state or were rejected, and the last recorded report. */
    recorded: null as {
      newsCount: number;
      lastAtMs: number;
      wasLaterStateRejected: boolean;
    } | null,
  };
}

export function isBeingPolled(quote: WatchedQuote): boolean {
  return quote.heap === null;
}
