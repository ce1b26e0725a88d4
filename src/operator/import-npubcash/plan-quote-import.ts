import {
  computePaidAtMs,
  computeWatchUntilMs,
  isPaidQuoteState,
} from '../../quotes/quote-state.ts';
import type { PaymentCounter } from '../../recipients/user-store.ts';
import type { ImportedQuote } from './npubcash-import-store.ts';
import type { ParsedNpubcashQuote } from './parse-npubcash-rows.ts';

/**
 * Decides the payment times and positions of new quotes. Wallets ignore payments that are not later than the newest
 * second that they have seen. So a payment keeps its time only if wallets have not seen that second, and no stored
 * payment of the recipient is later. Every other payment is listed as paid now. Payments that shared a second at
 * npubcash still share a second.
 *
 * @param newQuotes ordered by payment time; must contain either all or none of a recipient's payments in one second
 * @param storedCounters the counters of the recipients of paid quotes
 */
export function planQuoteImport(
  newQuotes: readonly ParsedNpubcashQuote[],
  storedCounters: readonly PaymentCounter[],
  nowMs: number,
): { quotes: ImportedQuote[]; counters: PaymentCounter[]; changedTimeCount: number } {
  const stored = new Map(storedCounters.map((counter) => [counter.pubkey, counter]));
  const planned = new Map<string, PaymentCounter>();
  let changedTimeCount = 0;
  const quotes = newQuotes.map((quote) => {
    const { pubkey } = quote;
    let payment: ImportedQuote['payment'] = null;
    if (isPaidQuoteState(quote.state)) {
      const counter = planned.get(pubkey) ?? stored.get(pubkey);
      if (counter === undefined) {
        throw new Error('a payment needs the counter of its recipient');
      }
      const paidAtMs = choosePaidAtMs(quote, counter, nowMs);
      const paidSeq = counter.paidCount + 1;
      payment = { paidAtMs, paidSeq };
      planned.set(pubkey, { ...counter, paidCount: paidSeq, lastPaidAtMs: paidAtMs });
      changedTimeCount += paidAtMs === quote.paidAtMs ? 0 : 1;
    }
    const watchUntilMs = computeImportWatchUntilMs(quote, payment?.paidAtMs ?? null, nowMs);
    return { ...quote, payment, watchUntilMs };
  });
  return { quotes, counters: [...planned.values()], changedTimeCount };
}

export function toQuoteKey({ mintUrl, quoteId }: { mintUrl: string; quoteId: string }): string {
  return `${mintUrl} ${quoteId}`;
}

export function isSamePaidSecond(
  a: ParsedNpubcashQuote | undefined,
  b: ParsedNpubcashQuote,
): boolean {
  const toSecond = ({ paidAtMs }: ParsedNpubcashQuote) => paidAtMs && Math.floor(paidAtMs / 1000);
  return a?.pubkey === b.pubkey && a.paidAtMs !== null && toSecond(a) === toSecond(b);
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

/** Null: not watched. The service checks every watched quote at least once, even if the time is in the past. */
function computeImportWatchUntilMs(
  quote: ParsedNpubcashQuote,
  paidAtMs: number | null,
  nowMs: number,
): number | null {
  const untilMs = quote.isMintAllowed ? computeWatchUntilMs({ ...quote, paidAtMs }) : null;
  return quote.state === 'PAID' && untilMs !== null && untilMs <= nowMs ? null : untilMs;
}
