import { watchUntilMs } from '../../quotes/poll-schedule.ts';
import { isPaidState, nextPaidAtMs } from '../../quotes/quote.ts';
import type { PaymentCounter } from '../../recipients/user-store.ts';
import type { ImportedQuote } from './npubcash-import-store.ts';
import type { OldQuote } from './read-npubcash.ts';

/** What to do with some quotes. */
export interface QuotesPlan {
  additions: (OldQuote & ImportedQuote)[];
  /** Quotes that are here already. */
  present: OldQuote[];
  /** The new counters of recipients who get a payment. */
  counters: PaymentCounter[];
  /** How many payments are listed at another time than at npubcash. */
  redated: number;
}

/**
 * Decides what to do with quotes.
 *
 * A payment keeps its time if that is later, in whole seconds, than every payment in the recipient's list.
 * Wallets use the newest time that they have seen as a watermark, and would never see an earlier payment.
 * Any other payment is listed as paid now. Payments that npubcash listed in one second share it here too.
 *
 * @param quotes in the order of their payments; those of one recipient and second all in one call
 * @param known.present the quotes that are here, by {@link keyOfQuote}
 * @param known.counters of all recipients
 */
export function planQuotes(
  quotes: readonly OldQuote[],
  known: { present: ReadonlySet<string>; counters: readonly PaymentCounter[] },
  nowMs: number,
): QuotesPlan {
  const plan: QuotesPlan = { additions: [], present: [], counters: [], redated: 0 };
  const counters = new Map(known.counters.map((counter) => [counter.pubkey, counter]));
  const changed = new Map<string, PaymentCounter>();
  for (const quote of quotes) {
    const { pubkey } = quote;
    if (known.present.has(keyOfQuote(quote))) {
      plan.present.push(quote);
      continue;
    }
    let payment: ImportedQuote['payment'] = null;
    if (isPaidState(quote.state)) {
      const before = counters.get(pubkey);
      const previous = changed.get(pubkey);
      const paidAtMs = listedAtMs(quote, before?.lastPaidAtMs ?? null, previous, nowMs);
      const paidSeq = ((previous ?? before)?.paidCount ?? 0) + 1;
      payment = { paidAtMs, paidSeq };
      changed.set(pubkey, { pubkey, paidCount: paidSeq, lastPaidAtMs: paidAtMs });
      plan.redated += paidAtMs === quote.paidAtMs ? 0 : 1;
    }
    const untilMs = watchUntil(quote, payment?.paidAtMs ?? null, nowMs);
    plan.additions.push({ ...quote, payment, watchUntilMs: untilMs });
  }
  plan.counters.push(...changed.values());
  return plan;
}

export function keyOfQuote({ mintUrl, quoteId }: { mintUrl: string; quoteId: string }): string {
  return `${mintUrl} ${quoteId}`;
}

/** Whether npubcash listed the payments of two quotes in one second of one list. */
export function areOfOneSecond(a: OldQuote | undefined, b: OldQuote): boolean {
  return (
    a?.pubkey === b.pubkey &&
    a.paidAtMs !== null &&
    b.paidAtMs !== null &&
    secondOf(a.paidAtMs) === secondOf(b.paidAtMs)
  );
}

/**
 * @param beforeMs the recipient's newest payment that a wallet may have seen
 * @param previous the counter after the previous payment of this plan, which wallets see together with this one
 */
function listedAtMs(
  { paidAtMs }: OldQuote,
  beforeMs: number | null,
  previous: PaymentCounter | undefined,
  nowMs: number,
): number {
  const previousMs = previous?.lastPaidAtMs ?? null;
  const isLater =
    paidAtMs !== null &&
    secondOf(paidAtMs) > secondOf(beforeMs ?? Number.NEGATIVE_INFINITY) &&
    paidAtMs >= (previousMs ?? Number.NEGATIVE_INFINITY);
  if (isLater && paidAtMs <= nowMs) {
    return paidAtMs;
  }
  // A second for each payment would let the times of a thousand run ahead of the clock.
  return previousMs === null ? nextPaidAtMs(beforeMs, nowMs) : Math.max(previousMs + 1, nowMs);
}

/**
 * Until when a quote is watched (milliseconds since 1970). Its mint is asked at least once, however old the
 * quote is, unless it is PAID and was not collected for so long that it is no longer watched.
 */
function watchUntil(quote: OldQuote, paidAtMs: number | null, nowMs: number): number | null {
  const untilMs = quote.isReachable ? watchUntilMs({ ...quote, paidAtMs }) : null;
  return quote.state === 'PAID' && untilMs !== null && untilMs <= nowMs ? null : untilMs;
}

function secondOf(ms: number): number {
  return Math.floor(ms / 1000);
}
