import type { Clock } from '../clock.ts';
import type { QuoteObservation } from '../mints/quote-responses.ts';
import type { RecordedQuote, SourcedObservation } from '../quotes/observation-recorder.ts';
import { isPaidQuoteState } from '../quotes/quote-state.ts';
import type { WatchedQuote } from '../quotes/watched-quote-store.ts';
import {
  computePollIntervalMs,
  computePollUrgency,
  isPastWatchUntil,
  type PollContext,
  shouldEndWatch,
} from './poll-schedule.ts';

/** A quote whose read failed goes last for this time: the mint may fail for this quote only. */
const FAILED_READ_DEPRIORITIZED_MS = 60_000;

/** A watched quote in memory. Monotonic times, in milliseconds. */
export interface PolledQuote extends WatchedQuote {
  lastPolledAtMs: number;
  /** When a single read of the quote last failed; null after a response. */
  lastReadFailedAtMs: number | null;
  stateSinceMs: number;
  /** When the mint first responded after the watch period; null before. */
  firstLateResponseAtMs: number | null;
  /** Whether the mint reported the quote as unpaid after its payment. */
  hasRegressed: boolean;
  /** Whether batches leave the quote out, because one omitted it or was rejected for it. */
  singleReadMode: 'no' | 'untilFound' | 'always';
}

export interface PollQueueDeps {
  /** Returns whether a subscription covers the quote. */
  isCovered: (quoteId: string) => boolean;
  clock: Clock;
  monotonicMs: () => number;
}

/** The watched quotes of one mint, and when each is due (`poll-schedule.ts`). */
export class PollQueue {
  readonly #deps: PollQueueDeps;
  readonly #quotes = new Map<string, PolledQuote>();

  constructor(deps: PollQueueDeps) {
    this.#deps = deps;
  }

  get(quoteId: string): PolledQuote | undefined {
    return this.#quotes.get(quoteId);
  }

  /** Returns the ids of the watched quotes, the newest last. */
  listQuoteIds(): string[] {
    const quotes = [...this.#quotes.values()];
    return quotes.sort((one, other) => one.id - other.id).map(({ quoteId }) => quoteId);
  }

  /**
   * Adds quotes. A quote that was just created is due after its interval, any other immediately. A
   * known quote takes the state of its row; if that is older, the next poll finds the payment again.
   */
  add(quotes: readonly WatchedQuote[], isJustCreated: boolean): void {
    const { clock, monotonicMs } = this.#deps;
    const nowMs = monotonicMs();
    for (const quote of quotes) {
      const known = this.#quotes.get(quote.quoteId);
      if (known !== undefined && !isJustCreated) {
        this.#setState(known, quote);
      } else if (known === undefined) {
        // The longest interval: a subscription that follows must not postpone the first poll.
        const neverPolled = { stateAgeAtPollMs: 0, isSubscribed: true };
        const sincePollMs = isJustCreated ? 0 : computePollIntervalMs(quote, clock(), neverPolled);
        this.#quotes.set(quote.quoteId, {
          ...quote,
          lastPolledAtMs: nowMs - sincePollMs,
          lastReadFailedAtMs: null,
          stateSinceMs: nowMs,
          firstLateResponseAtMs: null,
          hasRegressed: false,
          singleReadMode: 'no',
        });
      }
    }
  }

  applyRecorded(recorded: readonly RecordedQuote[]): void {
    for (const { quoteId, state, paidAtMs, isWatched } of recorded) {
      const quote = this.#quotes.get(quoteId);
      if (!isWatched) {
        this.#quotes.delete(quoteId);
      } else if (quote !== undefined) {
        this.#setState(quote, { state, paidAtMs });
      }
    }
  }

  remove(quoteId: string): void {
    this.#quotes.delete(quoteId);
  }

  isStateChange({ quoteId, state }: QuoteObservation): boolean {
    const quote = this.#quotes.get(quoteId);
    return quote !== undefined && quote.state !== state;
  }

  markPolled(quoteId: string, singleReadMode: PolledQuote['singleReadMode']): void {
    const quote = this.#quotes.get(quoteId);
    if (quote !== undefined) {
      quote.lastPolledAtMs = this.#deps.monotonicMs();
      quote.lastReadFailedAtMs = null;
      quote.singleReadMode = singleReadMode;
    }
  }

  clearReadFailures(): void {
    for (const quote of this.#quotes.values()) {
      quote.lastReadFailedAtMs = null;
    }
  }

  clearSingleReadModes(): void {
    for (const quote of this.#quotes.values()) {
      quote.singleReadMode = 'no';
    }
  }

  /** Returns how long the most overdue quote has been due, in milliseconds; 0 if none is. */
  getMaxOverdueMs(): number {
    const { clock, monotonicMs } = this.#deps;
    const nowMs = clock();
    const monotonicNowMs = monotonicMs();
    let maxOverdueMs = 0;
    for (const quote of this.#quotes.values()) {
      const sincePollMs = monotonicNowMs - quote.lastPolledAtMs;
      const context = this.#getPollContext(quote, sincePollMs);
      const overdueMs = sincePollMs - computePollIntervalMs(quote, nowMs, context);
      maxOverdueMs = Math.max(maxOverdueMs, overdueMs);
    }
    return maxOverdueMs;
  }

  /**
   * Returns the quotes that are due within `lookAheadMs`, the most urgent first, and the youngest
   * first among equals. The urgency is the current one: 0 for a quote that is not due yet. Quotes
   * whose read failed take turns behind all others for a minute.
   */
  listDue(lookAheadMs: number): { quote: PolledQuote; urgency: number }[] {
    const { clock, monotonicMs } = this.#deps;
    const nowMs = clock();
    const monotonicNowMs = monotonicMs();
    const due: { quote: PolledQuote; urgency: number; readFailedAtMs: number }[] = [];
    for (const quote of this.#quotes.values()) {
      const readFailedAtMs = getRecentReadFailureMs(quote, monotonicNowMs);
      // The results of a batch wait for the single reads beside it, so failing ones are left out.
      if (quote.singleReadMode !== 'no' && readFailedAtMs > 0) {
        continue;
      }
      const sincePollMs = monotonicNowMs - quote.lastPolledAtMs;
      const context = this.#getPollContext(quote, sincePollMs + lookAheadMs);
      if (computePollUrgency(quote, nowMs, context) > 0) {
        const urgency = computePollUrgency(quote, nowMs, { ...context, sincePollMs });
        due.push({ quote, urgency, readFailedAtMs });
      }
    }
    return due.sort(
      (one, other) =>
        one.readFailedAtMs - other.readFailedAtMs ||
        other.urgency - one.urgency ||
        other.quote.createdAtMs - one.quote.createdAtMs,
    );
  }

  /**
   * Selects the polled observations that must be recorded, because they change a state or end a
   * watch.
   *
   * @param sentAtMs when the requests were sent; states that changed later are newer than the
   *   observations
   */
  selectNews(observations: readonly QuoteObservation[], sentAtMs: number): SourcedObservation[] {
    const news: SourcedObservation[] = [];
    for (const observation of observations) {
      const quote = this.#quotes.get(observation.quoteId);
      if (quote === undefined || quote.stateSinceMs > sentAtMs) {
        continue;
      }
      // A payment that the mint takes back is reported only once.
      const isRegression = observation.state === 'UNPAID' && isPaidQuoteState(quote.state);
      const isReported = isRegression && quote.hasRegressed;
      quote.hasRegressed ||= isRegression;
      const shouldEndWatch = this.#shouldEndWatch(quote);
      if (shouldEndWatch || (observation.state !== quote.state && !isReported)) {
        news.push({ ...observation, source: 'poll', shouldEndWatch });
      }
    }
    return news;
  }

  #setState(quote: PolledQuote, { state, paidAtMs }: Pick<WatchedQuote, 'state' | 'paidAtMs'>) {
    if (quote.state !== state) {
      const stateSinceMs = this.#deps.monotonicMs();
      Object.assign(quote, { state, paidAtMs, stateSinceMs, firstLateResponseAtMs: null });
    }
  }

  #getPollContext(quote: PolledQuote, sincePollMs: number): PollContext {
    return {
      sincePollMs,
      stateAgeAtPollMs: quote.lastPolledAtMs - quote.stateSinceMs,
      isSubscribed: this.#deps.isCovered(quote.quoteId),
    };
  }

  /** Returns whether a response without a state change ends the watch. */
  #shouldEndWatch(quote: PolledQuote): boolean {
    const { clock, monotonicMs } = this.#deps;
    if (!isPastWatchUntil(quote, clock())) {
      return false;
    }
    quote.firstLateResponseAtMs ??= monotonicMs();
    return shouldEndWatch(quote, clock(), monotonicMs() - quote.firstLateResponseAtMs);
  }
}

/** Returns when a read of the quote failed, or 0 if it did not fail recently. */
function getRecentReadFailureMs({ lastReadFailedAtMs }: PolledQuote, nowMs: number): number {
  const failedAtMs = lastReadFailedAtMs ?? Number.NEGATIVE_INFINITY;
  return nowMs < failedAtMs + FAILED_READ_DEPRIORITIZED_MS ? failedAtMs : 0;
}
