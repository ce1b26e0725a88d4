import { computeBackoffMs } from '../backoff.ts';
import type { Clock } from '../clock.ts';
import type { SubscribableQuotes } from '../mints/mint-subscription.ts';
import type { QuoteObservation } from '../mints/quote-responses.ts';
import type {
  ObservationSource,
  RecordedQuote,
  SourcedObservation,
} from '../quotes/decide-observation.ts';
import { decideTransition, isLaterState } from '../quotes/quote-state.ts';
import type { WatchedQuote } from '../quotes/watched-quote-store.ts';
import {
  CROWDED_QUOTES,
  LOOK_AHEAD_MS,
  MAX_UNSUBSCRIBED_QUOTES,
  REPORT_PAUSE,
  REPORTS_WITHOUT_PAUSE,
  SUBSCRIPTION_PROOF_DELAY_MS,
} from './limits.ts';
import { NO_BATCH_LIMIT, type PollableQuote, PollOrder } from './poll-order.ts';
import {
  computeNextPoll,
  computePollIntervalMs,
  isWatchPeriodOver,
  WATCH_END_CONFIRMATION_MS,
} from './poll-schedule.ts';

export type QuoteWatch = ReturnType<typeof createQuoteWatch>;

/** Creates a watched quote. Its own times are monotonic, and whole numbers, which take less memory. */
function createQuoteWatch(quote: WatchedQuote, nowMs: number, lastPolledAtMs: number) {
  return {
    id: quote.id,
    quoteId: quote.quoteId,
    state: quote.state,
    createdAtMs: quote.createdAtMs,
    expiresAtMs: quote.expiresAtMs,
    paidAtMs: quote.paidAtMs,
    dueAtMs: 0,
    heap: null as PollableQuote['heap'],
    heapIndex: -1,
    lastPolledAtMs,
    stateSinceMs: nowMs,
    notBeforeMs: 0,
    failedReads: 0,
    batchLimit: NO_BATCH_LIMIT,
    subscribedAtMs: null as number | null,
    /** Whether the subscription has reported a state. cdk and Nutshell also confirm those that report nothing. */
    isCovered: false,
    firstPostWatchResponseAtMs: null as number | null,
    /** The newest report that is not recorded yet. */
    report: null as SourcedObservation | null,
    /** How many recorded reports changed the state or were rejected, and the last recorded report. */
    recorded: null as { news: number; lastAtMs: number; wasLaterStateRejected: boolean } | null,
  };
}

/** When each quote of a mint is polled, whether a subscription covers it, and what must still be recorded about it. */
export class WatchedQuotes implements SubscribableQuotes {
  readonly #context;
  readonly #quotes = new Map<string, QuoteWatch>();
  readonly #order = new PollOrder<QuoteWatch>();
  #unsubscribed = new Set<QuoteWatch>();
  readonly #reported = new Set<QuoteWatch>();
  #unpaidCount = 0;
  /** False after polling found a change that the subscription should have reported. */
  #isSubscriptionReliable = true;
  #clockOffsetMs: number;

  constructor(context: {
    isOperatorMint: boolean;
    clock: Clock;
    monotonicMs: () => number;
    /** Called when a report must be recorded. */
    onReport: () => void;
  }) {
    this.#context = context;
    this.#clockOffsetMs = context.clock() - this.#monotonicMs();
  }

  #monotonicMs(): number {
    return Math.floor(this.#context.monotonicMs());
  }

  get unpaidCount(): number {
    return this.#unpaidCount;
  }

  /** Adds quotes that were just created. Their first polls are due after their poll intervals. */
  addNew(quotes: readonly WatchedQuote[]): void {
    const added = quotes.flatMap((quote) =>
      this.#quotes.has(quote.quoteId) ? [] : this.#watch(quote, { isJustCreated: true }),
    );
    this.#addUnsubscribed(added, { areNewest: true });
  }

  /**
   * Adds quotes that were read from the database. Their first polls are due immediately. A known quote takes the state
   * from the database: if that is outdated, the next poll corrects it.
   */
  addExisting(quotes: readonly WatchedQuote[]): void {
    const added: QuoteWatch[] = [];
    for (const quote of quotes) {
      const known = this.#quotes.get(quote.quoteId);
      if (known === undefined) {
        added.push(this.#watch(quote, { isJustCreated: false }));
      } else {
        this.#setState(known, quote);
      }
    }
    this.#addUnsubscribed(added, { areNewest: false });
  }

  /** Leaves the oldest quotes to polls. */
  #addUnsubscribed(quotes: readonly QuoteWatch[], { areNewest }: { areNewest: boolean }): void {
    for (const quote of quotes) {
      this.#unsubscribed.add(quote);
    }
    if (!areNewest && quotes.length > 0) {
      this.#unsubscribed = new Set([...this.#unsubscribed].sort((one, other) => one.id - other.id));
    }
    const excess = Math.max(0, this.#unsubscribed.size - MAX_UNSUBSCRIBED_QUOTES);
    for (const quote of this.#unsubscribed.values().take(excess)) {
      this.#unsubscribed.delete(quote);
    }
  }

  #watch(quote: WatchedQuote, { isJustCreated }: { isJustCreated: boolean }): QuoteWatch {
    const nowMs = this.#monotonicMs();
    const context = { stateAgeAtPollMs: 0, isCovered: true };
    const longestIntervalMs = computePollIntervalMs(quote, this.#context.clock(), context);
    const added = createQuoteWatch(quote, nowMs, nowMs - (isJustCreated ? 0 : longestIntervalMs));
    this.#quotes.set(quote.quoteId, added);
    this.#unpaidCount += Number(quote.state === 'UNPAID');
    this.#schedule(added);
    return added;
  }

  #remove(quote: QuoteWatch): void {
    this.#order.remove(quote);
    this.#quotes.delete(quote.quoteId);
    this.#unsubscribed.delete(quote);
    this.#reported.delete(quote);
    this.#unpaidCount -= Number(quote.state === 'UNPAID');
  }

  getMaxOverdueMs(): number {
    return Math.max(0, this.#monotonicMs() - this.#order.firstDueAtMs);
  }

  hasDue(): boolean {
    const nowMs = this.#monotonicMs();
    this.#handleClockJump(this.#context.clock() - nowMs);
    return this.#order.firstDueAtMs <= nowMs;
  }

  /** See {@link PollOrder.take}. The caller must pass the quotes to {@link putBack} after the poll. */
  take(kind: 'batch' | 'alone' | 'any', max: number): QuoteWatch[] {
    return this.#order.take(
      kind,
      max,
      this.#monotonicMs() + (kind === 'batch' ? LOOK_AHEAD_MS : 0),
    );
  }

  putBack(quotes: readonly QuoteWatch[]): void {
    for (const quote of quotes) {
      if (quote.heap === null && this.#quotes.get(quote.quoteId) === quote) {
        this.#schedule(quote);
      }
    }
  }

  halveBatch(batch: readonly QuoteWatch[]): void {
    for (const quote of batch) {
      quote.batchLimit = Math.min(quote.batchLimit, Math.floor(batch.length / 2));
      quote.notBeforeMs = this.#monotonicMs();
      if (quote.heap !== null) {
        this.#reschedule(quote);
      }
    }
  }

  readAlone(quote: QuoteWatch): void {
    quote.batchLimit = 0;
  }

  retryLater(quote: QuoteWatch, pollIntervalMs: number): void {
    quote.failedReads += 1;
    // Payments must be found within 15 s after an outage of the mint.
    const limits = { initialMs: 2 * pollIntervalMs, maxMs: 4 * pollIntervalMs };
    quote.notBeforeMs = Math.floor(
      this.#monotonicMs() + computeBackoffMs(quote.failedReads, limits),
    );
  }

  /** @param observation null if the mint does not know the quote */
  handlePolled(quote: QuoteWatch, observation: QuoteObservation | null, sentAtMs: number): void {
    if (this.#quotes.get(quote.quoteId) !== quote) {
      return;
    }
    const { quoteId, batchLimit } = quote;
    quote.batchLimit =
      observation === null ? 0 : Math.min(Math.max(1, batchLimit * 2), NO_BATCH_LIMIT);
    quote.lastPolledAtMs = Math.floor(sentAtMs);
    quote.failedReads = 0;
    this.#reschedule(quote);
    // A state that changed after the request is newer than the response.
    if (quote.stateSinceMs <= sentAtMs) {
      // An unknown quote counts as unpaid, because the mint may know it again after it restores a backup.
      const observed = observation ?? { quoteId, state: 'UNPAID' };
      this.#report(quote, observed, 'poll', this.#recordResponseAndDecideEnd(quote));
    }
  }

  hasUnsubscribed(): boolean {
    return this.#unsubscribed.size > 0;
  }

  /** Takes the ids of the newest quotes without a subscription. The newest is last. */
  takeUnsubscribed(max: number): string[] {
    const newest = [...this.#unsubscribed].slice(-max);
    for (const quote of newest) {
      this.#unsubscribed.delete(quote);
    }
    return newest.map(({ quoteId }) => quoteId);
  }

  handleSubscribed(quoteIds: readonly string[]): void {
    for (const quote of this.#find(quoteIds)) {
      quote.subscribedAtMs = this.#monotonicMs();
      this.#reschedule(quote);
    }
  }

  /** Subscribes the newest quotes of a lost subscription again. The others are only polled. */
  handleUnsubscribed(quoteIds: readonly string[]): void {
    const lost = this.#find(quoteIds);
    for (const quote of lost) {
      quote.isCovered = false;
      this.#reschedule(quote);
    }
    this.#addUnsubscribed(lost, { areNewest: false });
  }

  /**
   * Keeps what a subscription reports. Leaves UNPAID to polls, because the first report after subscribing may be
   * outdated, and at mints that users chose all earlier states: such a mint could report INFLIGHT again and again.
   */
  handleNotification(observation: QuoteObservation): void {
    const quote = this.#quotes.get(observation.quoteId);
    if (quote === undefined) {
      return;
    }
    if (!quote.isCovered) {
      quote.isCovered = true;
      this.#reschedule(quote);
    }
    const isLater = isLaterState(observation.state, quote.report?.state ?? quote.state);
    if (isLater || (this.#context.isOperatorMint && observation.state !== 'UNPAID')) {
      this.#report(quote, observation, 'socket', false);
    }
  }

  hasReports(): boolean {
    return this.#reported.size > 0;
  }

  takeReports(max: number): SourcedObservation[] {
    return [...this.#reported.values().take(max)].flatMap((quote) => {
      const { report } = quote;
      this.#reported.delete(quote);
      quote.report = null;
      return report ?? [];
    });
  }

  /** Unless reports of the same or a later state have arrived. */
  putBackReports(reports: readonly SourcedObservation[]): void {
    for (const report of reports) {
      const quote = this.#quotes.get(report.quoteId);
      const newer = quote?.report ?? null;
      if (quote !== undefined && (newer === null || isLaterState(report.state, newer.state))) {
        quote.report = report;
        this.#reported.add(quote);
      }
    }
  }

  /** A quote that is missing in `recorded` is not stored. */
  applyRecorded(reports: readonly SourcedObservation[], recorded: readonly RecordedQuote[]): void {
    const recordedById = new Map(recorded.map((each) => [each.quoteId, each]));
    for (const { quoteId, state } of reports) {
      const quote = this.#quotes.get(quoteId);
      const result = recordedById.get(quoteId);
      if (quote === undefined) {
        continue;
      }
      if (result?.hasStateChanged && result.state !== 'EXPIRED') {
        this.#judgeSubscription(quote, result.source);
      }
      // A payment may have been reported while the end of the watch was recorded.
      if (result?.isWatched || (result !== undefined && quote.report !== null)) {
        quote.recorded = {
          news: (quote.recorded?.news ?? 0) + Number(result.hasStateChanged || result.isRejected),
          lastAtMs: this.#monotonicMs(),
          wasLaterStateRejected: result.isRejected && isLaterState(state, result.state),
        };
        this.#setState(quote, result);
      } else {
        this.#remove(quote);
      }
    }
  }

  /** Relies on the subscription until polling finds a change that it should have reported, and again once it reports one. */
  #judgeSubscription({ isCovered, subscribedAtMs }: QuoteWatch, source: ObservationSource): void {
    const nowMs = this.#monotonicMs();
    // The first report after subscribing may take a while.
    const isMissed = isCovered && nowMs > (subscribedAtMs ?? nowMs) + 10_000;
    const isReliable = source === 'socket' || (this.#isSubscriptionReliable && !isMissed);
    if (this.#isSubscriptionReliable !== isReliable) {
      this.#isSubscriptionReliable = isReliable;
      this.#rescheduleAll();
    }
  }

  #report(
    quote: QuoteWatch,
    observation: QuoteObservation,
    source: ObservationSource,
    shouldEnd: boolean,
  ): void {
    const known = quote.report?.state ?? quote.state;
    const { outcome } = decideTransition(known, observation.state, shouldEnd);
    const isOutdated = quote.report !== null && outcome === 'state_regression';
    // Of a mint that reports INFLIGHT and PAID in turn, PAID is kept: wallets do not see an INFLIGHT quote as paid.
    const isExempt =
      isLaterState(observation.state, known) && !quote.recorded?.wasLaterStateRejected;
    const isPaused = !isExempt && this.#isReportPaused(quote);
    if ((outcome === 'unchanged' && !shouldEnd) || isOutdated || isPaused) {
      return;
    }
    quote.report = { ...observation, source, shouldEndWatch: shouldEnd };
    this.#reported.add(quote);
    this.#context.onReport();
  }

  #isReportPaused({ recorded }: QuoteWatch): boolean {
    const excess = (recorded?.news ?? 0) - REPORTS_WITHOUT_PAUSE;
    return (
      recorded !== null &&
      excess >= 0 &&
      this.#monotonicMs() < recorded.lastAtMs + computeBackoffMs(excess + 1, REPORT_PAUSE)
    );
  }

  #recordResponseAndDecideEnd(quote: QuoteWatch): boolean {
    const isCrowded = this.#quotes.size > CROWDED_QUOTES;
    if (!isWatchPeriodOver(quote, this.#context.clock(), isCrowded)) {
      quote.firstPostWatchResponseAtMs = null;
      return false;
    }
    quote.firstPostWatchResponseAtMs ??= this.#monotonicMs();
    return this.#monotonicMs() >= quote.firstPostWatchResponseAtMs + WATCH_END_CONFIRMATION_MS;
  }

  #setState(quote: QuoteWatch, { state, paidAtMs }: Pick<WatchedQuote, 'state' | 'paidAtMs'>) {
    if (quote.state !== state) {
      this.#unpaidCount += Number(state === 'UNPAID') - Number(quote.state === 'UNPAID');
      const stateSinceMs = this.#monotonicMs();
      Object.assign(quote, { state, paidAtMs, stateSinceMs, firstPostWatchResponseAtMs: null });
      this.#reschedule(quote);
    }
  }

  #find(quoteIds: readonly string[]): QuoteWatch[] {
    return quoteIds.flatMap((quoteId) => this.#quotes.get(quoteId) ?? []);
  }

  #reschedule(quote: QuoteWatch): void {
    this.#order.remove(quote);
    this.#schedule(quote);
  }

  #schedule(quote: QuoteWatch): void {
    const nowMs = this.#monotonicMs();
    const { dueInMs, isUrgent } = computeNextPoll(quote, this.#context.clock(), {
      sincePollMs: nowMs - quote.lastPolledAtMs,
      stateAgeAtPollMs: quote.lastPolledAtMs - quote.stateSinceMs,
      isCovered: this.#isSubscriptionReliable && quote.isCovered,
    });
    const proofAtMs = (quote.subscribedAtMs ?? -Infinity) + SUBSCRIPTION_PROOF_DELAY_MS;
    const needsProof = quote.state === 'UNPAID' && quote.lastPolledAtMs < proofAtMs;
    const isProofFirst = needsProof && proofAtMs < nowMs + dueInMs;
    const dueAtMs = isProofFirst ? proofAtMs : nowMs + dueInMs;
    quote.dueAtMs = Math.ceil(Math.max(dueAtMs, quote.notBeforeMs));
    this.#order.add(quote, isUrgent || isProofFirst);
  }

  #rescheduleAll(): void {
    for (const quote of this.#quotes.values()) {
      if (quote.heap !== null) {
        this.#reschedule(quote);
      }
    }
  }

  /** The schedule depends on the age of quotes, by the wall clock. */
  #handleClockJump(offsetMs: number): void {
    if (Math.abs(offsetMs - this.#clockOffsetMs) > 10_000) {
      this.#clockOffsetMs = offsetMs;
      this.#rescheduleAll();
    }
  }
}
