import type { ObservedState, QuoteObservation } from '../domain/quote.ts';

/**
 * An honest mint tells a handful of states of one quote: the first, PAID, PENDING, PAID, ISSUED. What
 * goes beyond this costs transactions; polling has the rest.
 */
const MAX_TOLD = 32;

/**
 * What a notification is, beside what was subscribed and told before on its connection.
 *
 * - `told_first`: a quote moved on, and no poll had brought that before.
 * - `news`: any other word to hand over; the first one on a quote, which may be stale, always is.
 * - `repeated`: the state that was told last.
 * - `excess`: of a quote of which too much was told.
 * - `unasked`: of a quote that was never subscribed here.
 */
export type ReportKind = 'told_first' | 'news' | 'repeated' | 'excess' | 'unasked';

/** The ids of one subscribe message. */
export interface Lot {
  /** When the mint said OK, in milliseconds since 1970; null before, and where it refused. */
  confirmedAt: number | null;
  /** The mint did not take it up, as one message too many: its ids may be subscribed again. */
  isTurnedAway: boolean;
  /** Whether the mint told the state of any of them. */
  hasTold: boolean;
}

interface Subscribed {
  readonly lot: Lot;
  /** The last word of the mint on this connection; null before the first. */
  toldState: ObservedState | null;
  toldCount: number;
  /** The furthest that the mint has told here, and that a poll has brought. */
  toldProgress: number;
  polledProgress: number;
}

/**
 * What was subscribed on one connection, what the mint told there, and what it should have told.
 * Pure. It holds every id ever subscribed, the refused ones too: asking again would cost filters.
 * What was turned away cost none.
 */
export class SubscriptionReports {
  readonly #quotes = new Map<string, Subscribed>();

  get size(): number {
    return this.#quotes.size;
  }

  /** Whether it needs no other message: it was subscribed, and not turned away. */
  has(quoteId: string): boolean {
    return this.#quotes.get(quoteId)?.lot.isTurnedAway === false;
  }

  /** Adds ids that are subscribed in one message. */
  add(quoteIds: readonly string[]): Lot {
    const lot: Lot = { confirmedAt: null, isTurnedAway: false, hasTold: false };
    for (const quoteId of quoteIds) {
      this.#quotes.set(quoteId, {
        lot,
        toldState: null,
        toldCount: 0,
        toldProgress: 0,
        polledProgress: 0,
      });
    }
    return lot;
  }

  /** Whether news of the quote can be relied on to come. */
  covers(quoteId: string): boolean {
    const quote = this.#quotes.get(quoteId);
    return quote !== undefined && quote.lot.confirmedAt !== null && quote.toldCount < MAX_TOLD;
  }

  /** Takes in a notification. */
  take({ quoteId, state }: QuoteObservation): ReportKind {
    const quote = this.#quotes.get(quoteId);
    if (quote === undefined) {
      return 'unasked';
    }
    if (quote.toldCount >= MAX_TOLD) {
      return 'excess';
    }
    if (quote.toldState === state) {
      return 'repeated';
    }
    const isFirst = quote.toldState === null;
    const known = Math.max(quote.toldProgress, quote.polledProgress);
    const told = PROGRESS[state];
    quote.toldState = state;
    quote.toldCount += 1;
    quote.toldProgress = Math.max(quote.toldProgress, told);
    quote.lot.hasTold = true;
    return !isFirst && told > known ? 'told_first' : 'news';
  }

  /** Takes in what a poll brought. */
  polled(quoteId: string, state: ObservedState): void {
    const quote = this.#quotes.get(quoteId);
    if (quote !== undefined) {
      quote.polledProgress = Math.max(quote.polledProgress, PROGRESS[state]);
    }
  }

  /**
   * Whether the mint should have told this state, or a later one, and has not.
   *
   * @param confirmedBy a subscription confirmed later than this is too young to be judged
   */
  lacks(quoteId: string, state: ObservedState, confirmedBy: number): boolean {
    const quote = this.#quotes.get(quoteId);
    if (quote === undefined || !this.covers(quoteId) || !isConfirmedBy(quote.lot, confirmedBy)) {
      return false;
    }
    // cdk drops what overflows its queue, so that some first words of a large lot never come; and
    // what happened before the subscription is not told again.
    const isFirstLost = quote.toldState === null && quote.lot.hasTold;
    return !isFirstLost && PROGRESS[state] > quote.toldProgress;
  }
}

function isConfirmedBy({ confirmedAt }: Lot, time: number): boolean {
  return confirmedAt !== null && confirmedAt <= time;
}

/** A mint need not tell of the moments while it signs, and may fall back to PAID after them. */
const PROGRESS: Readonly<Record<ObservedState, number>> = {
  UNPAID: 0,
  INFLIGHT: 1,
  PAID: 1,
  ISSUED: 2,
};
