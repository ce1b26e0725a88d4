import {
  computeNextPaidAtMs,
  computeWatchUntilMs,
  isPaidQuoteState,
} from '../../quotes/quote-state.ts';
import type { PaymentCounter } from '../../recipients/user-store.ts';
import type { ImportedQuote } from './npubcash-import-store.ts';
import type { ParsedNpubcashQuote } from './parse-npubcash-rows.ts';

export interface QuoteImportPlan {
  quotesToInsert: (ParsedNpubcashQuote & ImportedQuote)[];
  existingQuotes: ParsedNpubcashQuote[];
  /** The new counters of recipients with added payments. */
  counters: PaymentCounter[];
  /** The number of payments listed at another time than at npubcash. */
  redatedCount: number;
}

/**
 * Decides which quotes to insert, and at which payment times.
 *
 * A payment keeps its time if that is later, in whole seconds, than every stored payment of the recipient: wallets use
 * the newest time that they have seen as a watermark, and would miss an earlier payment. Any other payment is listed as
 * paid now. Payments that npubcash listed in the same second also share a second here.
 *
 * @param quotes ordered by payment; all payments of one recipient and second must be in one call
 * @param stored.existingKeys the stored quotes, by {@link toQuoteKey}
 * @param stored.counters the counters of all recipients
 */
export function planQuoteImport(
  quotes: readonly ParsedNpubcashQuote[],
  stored: { existingKeys: ReadonlySet<string>; counters: readonly PaymentCounter[] },
  nowMs: number,
): QuoteImportPlan {
  const storedCounters = new Map(stored.counters.map((counter) => [counter.pubkey, counter]));
  const plannedCounters = new Map<string, PaymentCounter>();
  const quotesToInsert: QuoteImportPlan['quotesToInsert'] = [];
  const existingQuotes: ParsedNpubcashQuote[] = [];
  let redatedCount = 0;
  for (const quote of quotes) {
    if (stored.existingKeys.has(toQuoteKey(quote))) {
      existingQuotes.push(quote);
      continue;
    }
    const { pubkey } = quote;
    let payment: ImportedQuote['payment'] = null;
    if (isPaidQuoteState(quote.state)) {
      const storedCounter = storedCounters.get(pubkey);
      const plannedCounter = plannedCounters.get(pubkey);
      const storedLastPaidAtMs = storedCounter?.lastPaidAtMs ?? null;
      const paidAtMs = choosePaidAtMs(quote, storedLastPaidAtMs, plannedCounter, nowMs);
      const paidSeq = ((plannedCounter ?? storedCounter)?.paidCount ?? 0) + 1;
      payment = { paidAtMs, paidSeq };
      plannedCounters.set(pubkey, { pubkey, paidCount: paidSeq, lastPaidAtMs: paidAtMs });
      redatedCount += paidAtMs === quote.paidAtMs ? 0 : 1;
    }
    const watchUntilMs = computeImportWatchUntilMs(quote, payment?.paidAtMs ?? null, nowMs);
    quotesToInsert.push({ ...quote, payment, watchUntilMs });
  }
  return { quotesToInsert, existingQuotes, counters: [...plannedCounters.values()], redatedCount };
}

export function toQuoteKey({ mintUrl, quoteId }: { mintUrl: string; quoteId: string }): string {
  return `${mintUrl} ${quoteId}`;
}

/** Whether npubcash listed the payments of two quotes in the same second of the same list. */
export function isSamePaidSecond(
  a: ParsedNpubcashQuote | undefined,
  b: ParsedNpubcashQuote,
): boolean {
  return (
    a?.pubkey === b.pubkey &&
    a.paidAtMs !== null &&
    b.paidAtMs !== null &&
    toSeconds(a.paidAtMs) === toSeconds(b.paidAtMs)
  );
}

/**
 * @param storedLastPaidAtMs the time of the recipient's newest stored payment, which a wallet may have seen
 * @param plannedCounter the counter after the previous payment of this plan, which wallets see together with this one
 */
function choosePaidAtMs(
  { paidAtMs }: ParsedNpubcashQuote,
  storedLastPaidAtMs: number | null,
  plannedCounter: PaymentCounter | undefined,
  nowMs: number,
): number {
  const plannedLastPaidAtMs = plannedCounter?.lastPaidAtMs ?? null;
  const canKeepTime =
    paidAtMs !== null &&
    toSeconds(paidAtMs) > toSeconds(storedLastPaidAtMs ?? Number.NEGATIVE_INFINITY) &&
    paidAtMs >= (plannedLastPaidAtMs ?? Number.NEGATIVE_INFINITY);
  if (canKeepTime && paidAtMs <= nowMs) {
    return paidAtMs;
  }
  // Milliseconds, not seconds: otherwise a thousand payments would run far ahead of the clock.
  return plannedLastPaidAtMs === null
    ? computeNextPaidAtMs(storedLastPaidAtMs, nowMs)
    : Math.max(plannedLastPaidAtMs + 1, nowMs);
}

/**
 * Returns when to stop watching a quote (milliseconds since 1970). The service checks even an old quote at least once,
 * unless it is PAID and past its watch time.
 */
function computeImportWatchUntilMs(
  quote: ParsedNpubcashQuote,
  paidAtMs: number | null,
  nowMs: number,
): number | null {
  const untilMs = quote.isMintAllowed ? computeWatchUntilMs({ ...quote, paidAtMs }) : null;
  return quote.state === 'PAID' && untilMs !== null && untilMs <= nowMs ? null : untilMs;
}

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
