import {
  computePaidAtMs,
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
 * later. A payment therefore keeps its time only if wallets have not seen that second, and it is not earlier than a
 * stored payment of the recipient. Every other payment is listed as paid now. Payments that shared a second at npubcash
 * still share a second.
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
      const counter = plannedCounters.get(pubkey) ?? storedCounters.get(pubkey);
      if (counter === undefined) {
        throw new Error('a payment needs the counter of its recipient');
      }
      const paidAtMs = choosePaidAtMs(quote, counter, nowMs);
      const paidSeq = counter.paidCount + 1;
      payment = { paidAtMs, paidSeq };
      plannedCounters.set(pubkey, { ...counter, paidCount: paidSeq, lastPaidAtMs: paidAtMs });
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

function choosePaidAtMs(
  { paidAtMs }: ParsedNpubcashQuote,
  counter: PaymentCounter,
  nowMs: number,
): number {
  const canKeepTime =
    paidAtMs !== null && paidAtMs <= nowMs && computePaidAtMs(counter, paidAtMs) === paidAtMs;
  return canKeepTime ? paidAtMs : computePaidAtMs(counter, nowMs);
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
