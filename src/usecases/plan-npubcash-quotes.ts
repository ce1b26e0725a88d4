import { nextPaidAtMs } from '../domain/payment-time.ts';
import { isPaidState, type PaidState, type QuoteState } from '../domain/quote.ts';
import type { NewForeignQuote, PresentQuote } from '../store/npubcash-import-store.ts';
import type { QuoteChange } from '../store/quote-watch-store.ts';
import type { PaymentCounter } from '../store/user-store.ts';
import { type BroughtQuote, watchUntilHere } from './read-npubcash.ts';

/** What is to be done with some quotes, decided and not done yet. */
export interface QuotesPlan {
  additions: (BroughtQuote & Pick<NewForeignQuote, 'payment' | 'watchUntilMs'>)[];
  /** Of quotes that are here. */
  changes: { quote: BroughtQuote; change: QuoteChange }[];
  /** Counters as they are then, of recipients that get a payment. */
  counters: PaymentCounter[];
  /** `BroughtQuote.row` of payments that come after all others. */
  deferred: number[];
  /** `BroughtQuote.row` of those whose place another recipient's quote has. */
  ofAnother: number[];
  /** Those that are here already. */
  unchanged: BroughtQuote[];
  /** How many payments are listed at another time than at npubcash. */
  dated: number;
}

/**
 * Decides what becomes of quotes.
 *
 * A payment keeps its time where it is later than all that its recipient's list has, by the second: wallets
 * know it by that time, or ask for what is later than one that they know. An earlier one would be passed
 * over by wallets that have seen the list, and takes its place as if it was recorded now; so does one of
 * which no time is known, or one of the future. Those that npubcash listed in one second share it here too.
 *
 * @param quotes each mint and id once; payments of one second to one recipient never in two calls
 * @param known.present of the quotes that are here, by {@link keyOfQuote}
 * @param known.counters by recipient; one who is missing has no payments
 * @param isLast false: payments that get a new time are left for the end, when all others have theirs
 * @param settledMs payments that are later than this have no time yet that they could keep
 */
export function planQuotes(
  quotes: readonly BroughtQuote[],
  known: {
    present: ReadonlyMap<string, PresentQuote>;
    counters: ReadonlyMap<string, PaymentCounter>;
  },
  { isLast, nowMs, settledMs }: { isLast: boolean; nowMs: number; settledMs: number },
): QuotesPlan {
  const plan: QuotesPlan = {
    additions: [],
    changes: [],
    counters: [],
    deferred: [],
    ofAnother: [],
    unchanged: [],
    dated: 0,
  };
  const places = new Places(known.counters, nowMs, Math.min(settledMs, nowMs));
  for (const quote of quotes) {
    const present = known.present.get(keyOfQuote(quote));
    if (present !== undefined && present.pubkey !== quote.pubkey) {
      plan.ofAnother.push(quote.row);
    } else if (present !== undefined && !isNews(present.state, quote.state)) {
      plan.unchanged.push(quote);
    } else if (present !== undefined && isPaidState(present.state)) {
      const watchUntilMs = watchUntilHere(quote, present.paidAtMs, nowMs);
      plan.changes.push({ quote, change: changeOf(present, quote, watchUntilMs, null) });
    } else if (!isPaidState(quote.state)) {
      plan.additions.push({
        ...quote,
        payment: null,
        watchUntilMs: watchUntilHere(quote, null, nowMs),
      });
    } else if (!isLast && !places.keepsTime(quote)) {
      plan.deferred.push(quote.row);
    } else {
      plan.dated += places.keepsTime(quote) ? 0 : 1;
      const payment = places.next(quote);
      const watchUntilMs = watchUntilHere(quote, payment.paidAtMs, nowMs);
      if (present === undefined) {
        plan.additions.push({ ...quote, payment, watchUntilMs });
      } else {
        plan.changes.push({ quote, change: changeOf(present, quote, watchUntilMs, payment) });
      }
    }
  }
  return { ...plan, counters: places.taken() };
}

/** Tells quotes apart. */
export function keyOfQuote({ mintUrl, quoteId }: { mintUrl: string; quoteId: string }): string {
  return `${mintUrl} ${quoteId}`;
}

/** A time as wallets see it. @param ms since 1970 */
export function secondOf(ms: number): number {
  return Math.floor(ms / 1000);
}

/** How far a payment is on its way. */
const PROGRESS: Readonly<Record<PaidState, number>> = { INFLIGHT: 1, PAID: 2, ISSUED: 3 };

/** Whether a state is further on than what is known here: an older word of npubcash takes nothing back. */
function isNews(here: QuoteState, there: QuoteState): boolean {
  const progress = (state: QuoteState) => (isPaidState(state) ? PROGRESS[state] : 0);
  return progress(there) > progress(here);
}

function changeOf(
  { id }: PresentQuote,
  { state }: BroughtQuote,
  watchUntilMs: number | null,
  payment: QuoteChange['payment'],
): QuoteChange {
  return { id, state, payment, watchUntilMs };
}

/** Gives payments their places at the end of their recipients' lists. */
class Places {
  readonly #counters: ReadonlyMap<string, PaymentCounter>;
  readonly #nowMs: number;
  readonly #settledMs: number;
  /** The counters of recipients that got a place. */
  readonly #taken = new Map<string, PaymentCounter>();

  constructor(counters: ReadonlyMap<string, PaymentCounter>, nowMs: number, settledMs: number) {
    this.#counters = counters;
    this.#nowMs = nowMs;
    this.#settledMs = settledMs;
  }

  /** Whether a payment can have the time that npubcash gave it. */
  keepsTime({ pubkey, paidAtMs }: BroughtQuote): boolean {
    const before = this.#counters.get(pubkey)?.lastPaidAtMs ?? Number.NEGATIVE_INFINITY;
    const last = this.#taken.get(pubkey)?.lastPaidAtMs ?? before;
    return (
      paidAtMs !== null &&
      secondOf(paidAtMs) > secondOf(before) &&
      paidAtMs >= last &&
      paidAtMs <= this.#settledMs
    );
  }

  next(quote: BroughtQuote): { paidAtMs: number; paidSeq: number } {
    const { pubkey } = quote;
    const taken = this.#taken.get(pubkey);
    const last = taken ?? this.#counters.get(pubkey);
    const paidAtMs =
      quote.paidAtMs !== null && this.keepsTime(quote)
        ? quote.paidAtMs
        : this.#newTime(last?.lastPaidAtMs ?? null, taken !== undefined);
    const paidSeq = (last?.paidCount ?? 0) + 1;
    this.#taken.set(pubkey, { pubkey, paidCount: paidSeq, lastPaidAtMs: paidAtMs });
    return { paidAtMs, paidSeq };
  }

  taken(): PaymentCounter[] {
    return [...this.#taken.values()];
  }

  /**
   * A second apart from what a wallet may have seen already; those that appear together may share one, and
   * a thousand of them do not run ahead of the clock.
   */
  #newTime(lastMs: number | null, isTogether: boolean): number {
    return isTogether && lastMs !== null
      ? Math.max(lastMs + 1, this.#nowMs)
      : nextPaidAtMs(lastMs, this.#nowMs);
  }
}
