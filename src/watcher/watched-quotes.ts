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
import type { WatchedQuoteRow } from '../quotes/watched-quote-store.ts';
import {
  CROWDED_QUOTES,
  EXPIRY_TOLERANCE_MS,
  LOOK_AHEAD_MS,
  MAX_UNSUBSCRIBED_QUOTES,
  REPORT_PAUSE,
  REPORTS_WITHOUT_PAUSE,
  SUBSCRIPTION_CHECK_DELAY_MS,
} from './limits.ts';
import { PollOrder } from './poll-order.ts';
import {
  computeNextPoll,
  isWatchPeriodOver,
  LONGEST_INTERVAL_MS,
  WATCH_END_CONFIRMATION_MS,
} from './poll-schedule.ts';
import {
  createWatchedQuote,
  isBeingPolled,
  NO_BATCH_LIMIT,
  type WatchedQuote,
} from './watched-quote.ts';

/** Knows when each quote of a mint is polled, whether a subscription covers it, and which reports must be recorded. */
export class WatchedQuotes implements SubscribableQuotes {
  readonly #context;
  readonly #quotes = new Map<string, WatchedQuote>();
  readonly #order = new PollOrder();
  /** The quotes that wait to be subscribed, the newest last. */
  #unsubscribed = new Set<WatchedQuote>();
  /** The quotes whose report must be recorded. */
  readonly #reported = new Set<WatchedQuote>();
  /** Only this class changes it. */
  unpaidCount = 0;
  /** False after polling found a change that the subscription should have reported. */
  #isSubscriptionReliable = true;
  /** The wall clock minus the monotonic clock. */
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

  /** Adds a quote that was just created. Its first poll is due after a poll interval. */
  addNew(row: WatchedQuoteRow): void {
    if (!this.#quotes.has(row.quoteId)) {
      this.#addUnsubscribed([this.#watch(row, { sincePollMs: 0 })]);
    }
  }

  /**
   * Adds quotes that were read from the database. Their first polls are due immediately. A quote that is already watched
   * takes the state from the database: if that is outdated, the next poll corrects it.
   */
  addExisting(rows: readonly WatchedQuoteRow[]): void {
    const added: WatchedQuote[] = [];
    for (const row of rows) {
      const watched = this.#quotes.get(row.quoteId);
      if (watched === undefined) {
        // A poll is due, whatever its interval is.
        added.push(this.#watch(row, { sincePollMs: LONGEST_INTERVAL_MS }));
      } else {
        this.#setState(watched, row);
      }
    }
    this.#addUnsubscribed(added);
  }

  /** Adds quotes to those that wait to be subscribed. If too many wait, the oldest are only polled. */
  #addUnsubscribed(quotes: readonly WatchedQuote[]): void {
    const sorted = [...this.#unsubscribed, ...quotes].sort((one, other) => one.id - other.id);
    this.#unsubscribed = new Set(sorted.slice(-MAX_UNSUBSCRIBED_QUOTES));
  }

  #watch(row: WatchedQuoteRow, { sincePollMs }: { sincePollMs: number }): WatchedQuote {
    const nowMs = this.#monotonicMs();
    const quote = createWatchedQuote(row, nowMs, nowMs - sincePollMs);
    this.#quotes.set(quote.quoteId, quote);
    this.unpaidCount += Number(quote.state === 'UNPAID');
    this.#schedule(quote);
    return quote;
  }

  #remove(quote: WatchedQuote): void {
    this.#order.remove(quote);
    this.#quotes.delete(quote.quoteId);
    this.#unsubscribed.delete(quote);
    this.#reported.delete(quote);
    this.unpaidCount -= Number(quote.state === 'UNPAID');
  }

  getMaxOverdueMs(): number {
    return Math.max(0, this.#monotonicMs() - this.#order.firstDueAtMs);
  }

  hasDue(): boolean {
    const nowMs = this.#monotonicMs();
    this.#handleClockJump(this.#context.clock() - nowMs);
    return this.#order.firstDueAtMs <= nowMs;
  }

  /**
   * Takes due quotes: for one batch, those that are read alone, or of either kind. The caller must pass them to
   * {@link putBack} after the poll.
   */
  take(kind: 'batch' | 'alone' | 'any', max: number): WatchedQuote[] {
    const lookAheadMs = kind === 'batch' ? LOOK_AHEAD_MS : 0;
    return this.#order.take(kind, max, this.#monotonicMs() + lookAheadMs);
  }

  putBack(quotes: readonly WatchedQuote[]): void {
    for (const quote of quotes) {
      if (isBeingPolled(quote) && this.#quotes.get(quote.quoteId) === quote) {
        this.#schedule(quote);
      }
    }
  }

  /** Limits further batches of these quotes to half the size. They become due now, after quotes that have waited longer. */
  halveBatch(batch: readonly WatchedQuote[]): void {
    for (const quote of batch) {
      quote.batchLimit = Math.min(quote.batchLimit, Math.floor(batch.length / 2));
      quote.notBeforeMs = this.#monotonicMs();
      if (!isBeingPolled(quote)) {
        this.#reschedule(quote);
      }
    }
  }

  /** Excludes a quote from batches. */
  readAlone(quote: WatchedQuote): void {
    quote.batchLimit = 0;
    // A notification may have put it among the quotes of smaller batches during the poll. No batch may contain it, so it
    // would block all quotes behind it.
    if (!isBeingPolled(quote)) {
      this.#reschedule(quote);
    }
  }

  /** Delays the next poll of a quote whose read failed. */
  retryLater(quote: WatchedQuote, pollIntervalMs: number): void {
    // Short, because payments must be found within 15 s after an outage of the mint.
    quote.notBeforeMs = Math.floor(this.#monotonicMs() + 4 * pollIntervalMs);
  }

  /** @param observation null if the mint does not know the quote */
  handlePolled(quote: WatchedQuote, observation: QuoteObservation | null, sentAtMs: number): void {
    if (this.#quotes.get(quote.quoteId) !== quote) {
      return;
    }
    if (observation === null) {
      quote.batchLimit = 0;
    } else {
      quote.batchLimit = Math.min(Math.max(1, quote.batchLimit * 2), NO_BATCH_LIMIT);
    }
    // Subscriptions do not count: they may report a state that is long past.
    quote.wasPaidAfterExpiry ||=
      observation?.state === 'PAID' &&
      sentAtMs + this.#clockOffsetMs > quote.expiresAtMs + EXPIRY_TOLERANCE_MS;
    quote.lastPolledAtMs = Math.floor(sentAtMs);
    this.#reschedule(quote);
    // If the state changed after the request was sent, the response is outdated.
    if (quote.stateSinceMs <= sentAtMs) {
      const shouldEndWatch = this.#confirmWatchEnd(quote);
      // A quote that the mint does not know counts as unpaid, because the mint may restore it from a backup.
      const observed = observation ?? { quoteId: quote.quoteId, state: 'UNPAID' };
      this.#keepReport(quote, { ...observed, source: 'poll', shouldEndWatch });
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

  /** The quotes are not covered until a notification arrives: some mints confirm a subscription, but report nothing. */
  handleSubscribed(quoteIds: readonly string[]): void {
    for (const quote of this.#find(quoteIds)) {
      quote.subscribedAtMs = this.#monotonicMs();
      this.#reschedule(quote);
    }
  }

  /** Makes the newest quotes of a lost subscription wait to be subscribed again. The others are only polled. */
  handleUnsubscribed(quoteIds: readonly string[]): void {
    const lost = this.#find(quoteIds);
    for (const quote of lost) {
      quote.isCovered = false;
      this.#reschedule(quote);
    }
    this.#addUnsubscribed(lost);
  }

  /**
   * Keeps a state that a subscription reports if it is later than the known one. Earlier states are left to polls, which are
   * limited: a mint that a user chose could report INFLIGHT again and again. The operator's mints may report any state
   * but UNPAID, because the first report after subscribing may be outdated.
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
      this.#keepReport(quote, { ...observation, source: 'socket', shouldEndWatch: false });
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

  /** Returns the row ids (`quotes.id`) of reported quotes. */
  listRowIds(reports: readonly SourcedObservation[]): number[] {
    return this.#find(reports.map(({ quoteId }) => quoteId)).map(({ id }) => id);
  }

  /** Keeps reports that could not be recorded, unless reports of the same or a later state have arrived meanwhile. */
  putBackReports(reports: readonly SourcedObservation[]): void {
    for (const report of reports) {
      const quote = this.#quotes.get(report.quoteId);
      const newerState = quote?.report?.state;
      const isNeeded = newerState === undefined || isLaterState(report.state, newerState);
      if (quote !== undefined && isNeeded) {
        quote.report = report;
        this.#reported.add(quote);
      }
    }
  }

  /** Applies the stored states after reports were recorded. A quote that is missing in `recorded` is not stored. */
  applyRecorded(reports: readonly SourcedObservation[], recorded: readonly RecordedQuote[]): void {
    const storedById = new Map(recorded.map((stored) => [stored.quoteId, stored]));
    for (const report of reports) {
      const quote = this.#quotes.get(report.quoteId);
      const stored = storedById.get(report.quoteId);
      if (quote !== undefined && stored !== undefined) {
        this.#applyStored(quote, stored, report);
      } else if (quote !== undefined) {
        this.#remove(quote);
      }
    }
  }

  #applyStored(quote: WatchedQuote, stored: RecordedQuote, report: SourcedObservation): void {
    const { state, hasStateChanged, rejection } = stored;
    const isNews = hasStateChanged || rejection !== null;
    if (hasStateChanged && state !== 'EXPIRED') {
      this.#updateReliability(quote, stored.source);
    }
    // If a payment was reported while the end of the watch was recorded, the quote stays.
    if (stored.isWatched || quote.report !== null) {
      quote.recorded = {
        newsCount: (quote.recorded?.newsCount ?? 0) + Number(isNews),
        lastAtMs: this.#monotonicMs(),
        wasLaterStateRejected: rejection !== null && isLaterState(report.state, state),
      };
      this.#setState(quote, stored);
    } else {
      this.#remove(quote);
    }
  }

  /** Relies on the subscription until polling finds a change that it should have reported, and again once it reports one. */
  #updateReliability({ isCovered, subscribedAtMs }: WatchedQuote, source: ObservationSource): void {
    const nowMs = this.#monotonicMs();
    // The first report after subscribing may take a while.
    const shouldHaveReported = isCovered && nowMs > (subscribedAtMs ?? nowMs) + 10_000;
    const isReliable = source === 'socket' || (this.#isSubscriptionReliable && !shouldHaveReported);
    if (this.#isSubscriptionReliable !== isReliable) {
      this.#isSubscriptionReliable = isReliable;
      this.#rescheduleAll();
    }
  }

  /** Keeps a report until it is recorded. Ignores it if it changes nothing, or while reports of the quote are paused. */
  #keepReport(quote: WatchedQuote, report: SourcedObservation): void {
    const knownState = quote.report?.state ?? quote.state;
    const { outcome } = decideTransition(knownState, report.state, report.shouldEndWatch === true);
    const isNews = outcome !== 'unchanged' || report.shouldEndWatch;
    // Without a kept report, a regression is recorded as rejected.
    const isOlderThanKept = quote.report !== null && outcome === 'state_regression';
    if (!isNews || isOlderThanKept) {
      return;
    }
    // If a mint reports INFLIGHT and PAID in turn, PAID is kept despite a pause, because wallets treat INFLIGHT as unpaid.
    // This ends if it is rejected, for example because of another amount.
    const isExemptFromPause =
      isLaterState(report.state, knownState) && !quote.recorded?.wasLaterStateRejected;
    if (!isExemptFromPause && this.#areReportsPaused(quote)) {
      return;
    }
    const { wasPaidAfterExpiry } = quote;
    quote.report = { ...report, wasPaidAfterExpiry };
    this.#reported.add(quote);
    this.#context.onReport();
  }

  #areReportsPaused({ recorded }: WatchedQuote): boolean {
    if (recorded === null || recorded.newsCount < REPORTS_WITHOUT_PAUSE) {
      return false;
    }
    const pauseCount = recorded.newsCount - REPORTS_WITHOUT_PAUSE + 1;
    return this.#monotonicMs() < recorded.lastAtMs + computeBackoffMs(pauseCount, REPORT_PAUSE);
  }

  /** Call it for each response. Returns whether the mint has responded twice after the watch period, far enough apart. */
  #confirmWatchEnd(quote: WatchedQuote): boolean {
    const nowMs = this.#monotonicMs();
    const isCrowded = this.#quotes.size > CROWDED_QUOTES;
    if (!isWatchPeriodOver(quote, this.#context.clock(), isCrowded)) {
      quote.firstResponseAfterWatchPeriodAtMs = null;
      return false;
    }
    quote.firstResponseAfterWatchPeriodAtMs ??= nowMs;
    return nowMs >= quote.firstResponseAfterWatchPeriodAtMs + WATCH_END_CONFIRMATION_MS;
  }

  #setState(quote: WatchedQuote, { state, paidAtMs }: Pick<WatchedQuoteRow, 'state' | 'paidAtMs'>) {
    if (quote.state !== state) {
      this.unpaidCount += Number(state === 'UNPAID') - Number(quote.state === 'UNPAID');
      const stateSinceMs = this.#monotonicMs();
      const firstResponseAfterWatchPeriodAtMs = null;
      Object.assign(quote, { state, paidAtMs, stateSinceMs, firstResponseAfterWatchPeriodAtMs });
      this.#reschedule(quote);
    }
  }

  #find(quoteIds: readonly string[]): WatchedQuote[] {
    return quoteIds.flatMap((quoteId) => this.#quotes.get(quoteId) ?? []);
  }

  #reschedule(quote: WatchedQuote): void {
    this.#order.remove(quote);
    this.#schedule(quote);
  }

  #schedule(quote: WatchedQuote): void {
    const nowMs = this.#monotonicMs();
    const { dueInMs, isUrgent } = computeNextPoll(quote, this.#context.clock(), {
      sincePollMs: nowMs - quote.lastPolledAtMs,
      stateAgeAtPollMs: quote.lastPolledAtMs - quote.stateSinceMs,
      isCovered: this.#isSubscriptionReliable && quote.isCovered,
    });
    const scheduledAtMs = nowMs + dueInMs;
    // One poll after subscribing finds a payment that the mint did not report.
    const checkAtMs = (quote.subscribedAtMs ?? -Infinity) + SUBSCRIPTION_CHECK_DELAY_MS;
    const needsCheck = quote.state === 'UNPAID' && quote.lastPolledAtMs < checkAtMs;
    const isCheckFirst = needsCheck && checkAtMs < scheduledAtMs;
    const dueAtMs = isCheckFirst ? checkAtMs : scheduledAtMs;
    quote.dueAtMs = Math.ceil(Math.max(dueAtMs, quote.notBeforeMs));
    this.#order.add(quote, { isUrgent: isUrgent || isCheckFirst });
  }

  #rescheduleAll(): void {
    for (const quote of this.#quotes.values()) {
      if (!isBeingPolled(quote)) {
        this.#reschedule(quote);
      }
    }
  }

  /** Reschedules all quotes if the wall clock was changed, because their schedules depend on their age. */
  #handleClockJump(offsetMs: number): void {
    if (Math.abs(offsetMs - this.#clockOffsetMs) > 10_000) {
      this.#clockOffsetMs = offsetMs;
      this.#rescheduleAll();
    }
  }

  #monotonicMs(): number {
    return Math.floor(this.#context.monotonicMs());
  }
}
