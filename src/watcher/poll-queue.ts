import type { Clock } from '../clock.ts';
import type { QuoteState } from '../database/schema.ts';
import type { ObservedState, QuoteObservation } from '../mints/quote-responses.ts';
import type { RecordedQuote, SourcedObservation } from '../quotes/observation-recorder.ts';
import type { WatchedQuote } from '../quotes/watched-quote-store.ts';
import {
  computePollIntervalMs,
  computePollUrgency,
  isWatchPeriodOver,
  type PollContext,
  shouldEndWatch,
} from './poll-schedule.ts';

/** After a failed read, other quotes go first for this time, because the mint may fail for this quote only. */
const FAILED_READ_DEPRIORITIZED_MS = 60_000;

/** How long observations of a quote are ignored after a rejection. Doubles with each rejection. */
const MIN_REJECTION_BACKOFF_MS = 2_000;
const MAX_REJECTION_BACKOFF_MS = 60 * 60_000;

/** A watched quote in memory. Its own times, unlike those of {@link WatchedQuote}, are monotonic milliseconds. */
export interface PolledQuote extends WatchedQuote {
  lastPolledAtMs: number;
  /** When a single read of the quote failed; null if the mint has responded since. */
  lastReadFailedAtMs: number | null;
  stateSinceMs: number;
  /** When the mint first responded after the watch period; null before that. */
  firstPostWatchResponseAtMs: number | null;
  /** How many observations the database has rejected, and when the last of them was. */
  rejections: number;
  lastRejectedAtMs: number;
  /**
   * Whether the quote became INFLIGHT after it was PAID, because the mint began to sign. This is recorded only once:
   * each change costs a transaction, and a hostile mint could report changes without end.
   */
  hasReturnedToInflight: boolean;
  /**
   * Whether the quote is read in a request of its own instead of in batches: `untilFound` if a batch response omitted
   * it, `always` if the mint rejected a batch because of it.
   */
  singleReadMode: 'no' | 'untilFound' | 'always';
}

export interface PollQueueDeps {
  /** Whether the operator named the mint. */
  isOperatorMint: boolean;
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
   * Adds quotes. A quote that was just created is due after its poll interval, any other quote immediately. A quote
   * that was not just created and is already in the queue takes the given state. If that state is outdated, the next
   * poll corrects it.
   */
  add(quotes: readonly WatchedQuote[], isJustCreated: boolean): void {
    const { clock, monotonicMs } = this.#deps;
    const nowMs = monotonicMs();
    for (const quote of quotes) {
      const known = this.#quotes.get(quote.quoteId);
      if (known !== undefined && !isJustCreated) {
        this.#setState(known, quote);
      } else if (known === undefined) {
        // Uses the longer interval of covered quotes, so that a later subscription does not postpone the first poll.
        const context = { stateAgeAtPollMs: 0, isCovered: true };
        const sincePollMs = isJustCreated ? 0 : computePollIntervalMs(quote, clock(), context);
        this.#quotes.set(quote.quoteId, {
          ...quote,
          lastPolledAtMs: nowMs - sincePollMs,
          lastReadFailedAtMs: null,
          stateSinceMs: nowMs,
          firstPostWatchResponseAtMs: null,
          rejections: 0,
          lastRejectedAtMs: Number.NEGATIVE_INFINITY,
          hasReturnedToInflight: false,
          singleReadMode: 'no',
        });
      }
    }
  }

  applyRecorded(recorded: readonly RecordedQuote[]): void {
    for (const { quoteId, state, paidAtMs, isWatched, isRejected } of recorded) {
      const quote = this.#quotes.get(quoteId);
      if (!isWatched) {
        this.#quotes.delete(quoteId);
      } else if (quote !== undefined) {
        quote.rejections += Number(isRejected);
        quote.lastRejectedAtMs = isRejected ? this.#deps.monotonicMs() : quote.lastRejectedAtMs;
        quote.hasReturnedToInflight ||= isReturnToInflight(quote.state, state);
        this.#setState(quote, { state, paidAtMs });
      }
    }
  }

  remove(quoteId: string): void {
    this.#quotes.delete(quoteId);
  }

  /**
   * Whether a state that a subscription reports must be recorded. Ignores UNPAID, because the first report after
   * subscribing may be stale. At mints that users chose, leaves changes from PAID to INFLIGHT to polls, whose number is
   * limited.
   */
  shouldRecordReported({ quoteId, state }: QuoteObservation): boolean {
    const quote = this.#quotes.get(quoteId);
    const isLeftToPolls = !this.#deps.isOperatorMint && isReturnToInflight(quote?.state, state);
    return (
      quote !== undefined && state !== 'UNPAID' && !isLeftToPolls && this.#isNews(quote, state)
    );
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

  /** Returns how long the most overdue quote has been due, in milliseconds; 0 if no quote is due. */
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

  /** Whether a quote is due now. */
  hasDue(): boolean {
    const { clock, monotonicMs } = this.#deps;
    const nowMs = clock();
    const monotonicNowMs = monotonicMs();
    for (const quote of this.#quotes.values()) {
      const context = this.#getPollContext(quote, monotonicNowMs - quote.lastPolledAtMs);
      if (computePollUrgency(quote, nowMs, context) > 0) {
        return true;
      }
    }
    return false;
  }

  /**
   * Returns the quotes that are due within `lookAheadMs`. The most urgent quote is first; among equally urgent
   * quotes, the youngest. Quotes whose read failed within the last minute follow all others and take turns.
   *
   * @returns each with its current urgency; 0 if it becomes due within `lookAheadMs`
   */
  listDue(lookAheadMs: number): { quote: PolledQuote; urgency: number }[] {
    const { clock, monotonicMs } = this.#deps;
    const nowMs = clock();
    const monotonicNowMs = monotonicMs();
    const due: { quote: PolledQuote; urgency: number; readFailedAtMs: number }[] = [];
    for (const quote of this.#quotes.values()) {
      const readFailedAtMs = getRecentReadFailureAtMs(quote, monotonicNowMs);
      // The results of a batch wait for the single reads of the same poll, so a read that just failed is not repeated.
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
   * Selects the polled observations that must be recorded, because they change a state or end a watch.
   *
   * @param sentAtMs when the requests were sent; a state that changed later is newer than its observation
   */
  selectToRecord(
    observations: readonly QuoteObservation[],
    sentAtMs: number,
  ): SourcedObservation[] {
    const selected: SourcedObservation[] = [];
    for (const observation of observations) {
      const quote = this.#quotes.get(observation.quoteId);
      if (quote === undefined || quote.stateSinceMs > sentAtMs) {
        continue;
      }
      const shouldEndWatch = this.#recordResponseAndDecideEnd(quote);
      if (shouldEndWatch || this.#isNews(quote, observation.state)) {
        selected.push({ ...observation, source: 'poll', shouldEndWatch });
      }
    }
    return selected;
  }

  /** Whether a reported state must be recorded. Bounds the transactions that a hostile mint can cause. */
  #isNews(quote: PolledQuote, reported: ObservedState): boolean {
    const { rejections, lastRejectedAtMs, hasReturnedToInflight } = quote;
    const backoffMs = Math.min(
      MIN_REJECTION_BACKOFF_MS * 2 ** rejections,
      MAX_REJECTION_BACKOFF_MS,
    );
    const isBackingOff = this.#deps.monotonicMs() < lastRejectedAtMs + backoffMs;
    return (
      quote.state !== reported &&
      !isBackingOff &&
      !(hasReturnedToInflight && isReturnToInflight(quote.state, reported))
    );
  }

  #setState(quote: PolledQuote, { state, paidAtMs }: Pick<WatchedQuote, 'state' | 'paidAtMs'>) {
    if (quote.state !== state) {
      const stateSinceMs = this.#deps.monotonicMs();
      Object.assign(quote, { state, paidAtMs, stateSinceMs, firstPostWatchResponseAtMs: null });
    }
  }

  #getPollContext(quote: PolledQuote, sincePollMs: number): PollContext {
    return {
      sincePollMs,
      stateAgeAtPollMs: quote.lastPolledAtMs - quote.stateSinceMs,
      isCovered: this.#deps.isCovered(quote.quoteId),
    };
  }

  /** Call it for each response of the mint. */
  #recordResponseAndDecideEnd(quote: PolledQuote): boolean {
    const { clock, monotonicMs } = this.#deps;
    if (!isWatchPeriodOver(quote, clock())) {
      return false;
    }
    quote.firstPostWatchResponseAtMs ??= monotonicMs();
    return shouldEndWatch(quote, clock(), monotonicMs() - quote.firstPostWatchResponseAtMs);
  }
}

/** Returns when a single read of the quote failed, or 0 if none failed within the last minute. */
function getRecentReadFailureAtMs({ lastReadFailedAtMs }: PolledQuote, nowMs: number): number {
  const failedAtMs = lastReadFailedAtMs ?? Number.NEGATIVE_INFINITY;
  return nowMs < failedAtMs + FAILED_READ_DEPRIORITIZED_MS ? failedAtMs : 0;
}

/** Whether the mint signs the ecash of a quote that was PAID before. */
function isReturnToInflight(from: QuoteState | undefined, to: QuoteState): boolean {
  return from === 'PAID' && to === 'INFLIGHT';
}
