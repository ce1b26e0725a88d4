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
  /** The number of payments whose time differs from their time at npubcash. */
  changedTimeCount: number;
}

/**
 * Decides which quotes to insert, and at which payment times.
 *
 * Wallets remember the newest payment time that they have seen, in whole seconds, and ignore payments that are not
 * later. A payment therefore keeps its time only if it is later than every stored payment of the recipient. Every
 * other payment is listed as paid now. Payments that shared a second at npubcash still share a second.
 *
 * @param quotes ordered by payment time; must contain either all or none of a recipient's payments in one second
 * @param stored.existingKeys the keys of quotes that are stored already, as {@link toQuoteKey} returns them
 * @param stored.counters the stored counters of the recipients of paid quotes
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
  let changedTimeCount = 0;
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
      changedTimeCount += paidAtMs === quote.paidAtMs ? 0 : 1;
    }
    const watchUntilMs = computeImportWatchUntilMs(quote, payment?.paidAtMs ?? null, nowMs);
    quotesToInsert.push({ ...quote, payment, watchUntilMs });
  }
  const counters = [...plannedCounters.values()];
  return { quotesToInsert, existingQuotes, counters, changedTimeCount };
}

export function toQuoteKey({ mintUrl, quoteId }: { mintUrl: string; quoteId: string }): string {
  return `${mintUrl} ${quoteId}`;
}

/** Returns whether npubcash listed two quotes of one recipient as paid in the same second. */
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
 * @param storedLastPaidAtMs the time of the recipient's newest stored payment; a wallet may have seen that payment
 * @param plannedCounter the counter after the recipient's previous payment in this plan, which no wallet has seen yet
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
  // Adds one millisecond for each payment. Adding a second would put a thousand payments far into the future.
  return plannedLastPaidAtMs === null
    ? computeNextPaidAtMs(storedLastPaidAtMs, nowMs)
    : Math.max(plannedLastPaidAtMs + 1, nowMs);
}

/**
 * Returns when to stop watching a quote (milliseconds since 1970), or null to never watch it. The service checks
 * every watched quote at least once, even if the time is in the past. An old PAID quote is not watched.
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
