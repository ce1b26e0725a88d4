import { computeBackoffMs } from '../backoff.ts';
import type { Clock } from '../clock.ts';
import { OPERATOR_MINT_LIMITS } from '../mints/limits.ts';
import type { SubscribableQuotes } from '../mints/mint-subscription.ts';
import type { QuoteObservation } from '../mints/quote-responses.ts';
import type {
  ObservationSource,
  RecordedQuote,
  SourcedObservation,
} from '../quotes/observation-recorder.ts';
import { decideTransition, isLaterState } from '../quotes/quote-state.ts';
import type { WatchedQuote } from '../quotes/watched-quote-store.ts';
import { DueHeap, type DueItem } from './due-heap.ts';
import {
  CROWDED_QUOTES,
  FAILED_READ_RETRY_MS,
  MAX_SUBSCRIPTION_DELAY_MS,
  MAX_UNSUBSCRIBED_QUOTES,
  MIN_CLOCK_JUMP_MS,
  REPORT_PAUSE,
  REPORTS_WITHOUT_PAUSE,
  SHARE_OF_OTHERS,
  SUBSCRIPTION_PROOF_DELAY_MS,
} from './limits.ts';
import {
  computeNextPoll,
  computePollIntervalMs,
  isWatchPeriodOver,
  shouldEndWatch,
} from './poll-schedule.ts';

/**
 * A watched quote in memory: everything that this process knows about it. Its own times, unlike those of
 * {@link WatchedQuote}, are monotonic milliseconds. They are whole numbers, which take less memory.
 */
export interface QuoteWatch extends WatchedQuote, DueItem {
  /** The heap that contains it; null while it is being polled. */
  heap: HeapName | null;
  lastPolledAtMs: number;
  stateSinceMs: number;
  /** It is not polled before this time. */
  notBeforeMs: number;
  /** How many quotes a batch with it may have, because the mint failed for a larger one; 0: it is read alone. */
  batchLimit: number;
  /** When the mint last confirmed a subscription; null if it has not. */
  subscribedAtMs: number | null;
  /** Whether the subscription has reported a state. cdk and Nutshell also confirm subscriptions that report nothing. */
  isCovered: boolean;
  /** When the mint first responded after the watch period; null before that. */
  firstPostWatchResponseAtMs: number | null;
  /** The newest report that is not recorded yet. */
  report: SourcedObservation | null;
  /** How many reports changed the state or were rejected, and when the last of them was recorded. */
  recordedReports: number;
  lastRecordedAtMs: number;
}

/**
 * Quotes that may just have been paid, all others, those for which the mint may have failed a batch, and those that are
 * read alone.
 */
type HeapName = 'young' | 'others' | 'suspect' | 'alone';

/** At least as many as any batch contains. */
const NO_BATCH_LIMIT = OPERATOR_MINT_LIMITS.maxPollBatchSize;

/**
 * The watched quotes of one mint: when each is polled (`poll-schedule.ts`), which of them a subscription covers, and
 * what the mint has reported and must still be recorded.
 */
export class WatchedQuotes implements SubscribableQuotes {
  readonly #clock: Clock;
  readonly #monotonicMs: () => number;
  readonly #onReport: () => void;
  readonly #quotes = new Map<string, QuoteWatch>();
  readonly #heaps: Record<HeapName, DueHeap<QuoteWatch>> = {
    young: new DueHeap(),
    others: new DueHeap(),
    suspect: new DueHeap(),
    alone: new DueHeap(),
  };
  /** The newest is last. */
  #unsubscribed = new Set<QuoteWatch>();
  readonly #reported = new Set<QuoteWatch>();
  #isSuspectsTurn = false;
  #unpaidCount = 0;
  /** False after polling found a change that the subscription should have reported. */
  #isSubscriptionReliable = true;
  /** The difference between the two clocks. */
  #clockOffsetMs: number;

  /** @param options.onReport called when a report must be recorded */
  constructor({
    clock,
    monotonicMs,
    onReport,
  }: {
    clock: Clock;
    monotonicMs: () => number;
    onReport: () => void;
  }) {
    this.#clock = clock;
    this.#onReport = onReport;
    this.#monotonicMs = () => Math.floor(monotonicMs());
    this.#clockOffsetMs = clock() - monotonicMs();
  }

  get unpaidCount(): number {
    return this.#unpaidCount;
  }

  /**
   * Adds quotes, the newest last. A quote that was just created is due after its poll interval, any other quote
   * immediately. A known quote takes the state that was read from the database: if that is outdated, the next poll
   * corrects it.
   */
  add(quotes: readonly WatchedQuote[], isJustCreated: boolean): void {
    const added: QuoteWatch[] = [];
    for (const quote of quotes) {
      const known = this.#quotes.get(quote.quoteId);
      if (known === undefined) {
        added.push(this.#watch(quote, isJustCreated));
      } else if (!isJustCreated) {
        this.#setState(known, quote);
      }
    }
    this.#unsubscribed = isJustCreated
      ? new Set([...this.#unsubscribed, ...added].slice(-MAX_UNSUBSCRIBED_QUOTES))
      : new Set([...added, ...this.#unsubscribed].slice(-MAX_UNSUBSCRIBED_QUOTES));
  }

  #watch(quote: WatchedQuote, isJustCreated: boolean): QuoteWatch {
    const nowMs = this.#monotonicMs();
    // The longest possible interval, so that the quote is due.
    const longestIntervalMs = () =>
      computePollIntervalMs(quote, this.#clock(), { stateAgeAtPollMs: 0, isCovered: true });
    const { id, quoteId, state, createdAtMs, expiresAtMs, paidAtMs } = quote;
    const added: QuoteWatch = {
      id,
      quoteId,
      state,
      createdAtMs,
      expiresAtMs,
      paidAtMs,
      heap: null,
      dueAtMs: 0,
      heapIndex: -1,
      lastPolledAtMs: nowMs - (isJustCreated ? 0 : longestIntervalMs()),
      stateSinceMs: nowMs,
      notBeforeMs: 0,
      batchLimit: NO_BATCH_LIMIT,
      subscribedAtMs: null,
      isCovered: false,
      firstPostWatchResponseAtMs: null,
      report: null,
      recordedReports: 0,
      lastRecordedAtMs: 0,
    };
    this.#quotes.set(quoteId, added);
    this.#unpaidCount += Number(state === 'UNPAID');
    this.#schedule(added);
    return added;
  }

  #remove(quote: QuoteWatch): void {
    this.#unschedule(quote);
    this.#quotes.delete(quote.quoteId);
    this.#unsubscribed.delete(quote);
    this.#reported.delete(quote);
    this.#unpaidCount -= Number(quote.state === 'UNPAID');
  }

  // Polls

  /** Returns how long the most overdue quote has been due, in milliseconds; 0 if no quote is due. */
  getMaxOverdueMs(): number {
    const nowMs = this.#monotonicMs();
    const dueTimes = Object.values(this.#heaps).map((heap) => heap.peek()?.dueAtMs ?? nowMs);
    return Math.max(0, nowMs - Math.min(...dueTimes));
  }

  hasDue(): boolean {
    const nowMs = this.#monotonicMs();
    this.#handleClockJump(this.#clock() - nowMs);
    return Object.values(this.#heaps).some((heap) => (heap.peek()?.dueAtMs ?? Infinity) <= nowMs);
  }

  /**
   * Takes quotes for a batch that are due now or within `lookAheadMs`: young ones first, or, in turn with these, the
   * suspects. The caller must pass those that were not polled to {@link putBack}.
   */
  takeBatch(max: number, lookAheadMs: number): QuoteWatch[] {
    this.#isSuspectsTurn = !this.#isSuspectsTurn;
    const suspects = this.#isSuspectsTurn ? this.#take('suspect', max, lookAheadMs) : [];
    if (suspects.length > 0) {
      return suspects;
    }
    const others = this.#takeYoungFirst(max, lookAheadMs, ['others']);
    return others.length > 0 ? others : this.#take('suspect', max, lookAheadMs);
  }

  /** Like {@link takeBatch}, for quotes that batches cannot contain. */
  takeAlone(max: number): QuoteWatch[] {
    return this.#take('alone', max, 0);
  }

  /** Like {@link takeBatch}, while all quotes are read alone. */
  takeAny(max: number): QuoteWatch[] {
    return this.#takeYoungFirst(max, 0, ['others', 'suspect', 'alone']);
  }

  putBack(quotes: readonly QuoteWatch[]): void {
    for (const quote of quotes) {
      if (quote.heap === null && this.#quotes.get(quote.quoteId) === quote) {
        this.#schedule(quote);
      }
    }
  }

  /** Polls quotes only in smaller batches from now on, because the mint failed for their batch. */
  halveBatch(batch: readonly QuoteWatch[]): void {
    for (const quote of batch) {
      quote.batchLimit = Math.min(quote.batchLimit, Math.floor(batch.length / 2));
      quote.notBeforeMs = this.#monotonicMs();
      if (quote.heap !== null) {
        this.#reschedule(quote);
      }
    }
  }

  /** Lets more quotes share a batch with a quote that the mint has accepted. */
  allowLargerBatch(quote: QuoteWatch): void {
    quote.batchLimit = Math.min(Math.max(1, quote.batchLimit * 2), NO_BATCH_LIMIT);
  }

  readAlone(quote: QuoteWatch): void {
    quote.batchLimit = 0;
  }

  /** Does not poll a quote for a minute, because reading it failed. */
  retryLater(quote: QuoteWatch): void {
    quote.notBeforeMs = this.#monotonicMs() + FAILED_READ_RETRY_MS;
  }

  /** Records that the mint responded to a poll, which was sent at `sentAtMs`. */
  handlePolled(quote: QuoteWatch, observation: QuoteObservation, sentAtMs: number): void {
    if (this.#quotes.get(quote.quoteId) !== quote) {
      return;
    }
    quote.lastPolledAtMs = Math.floor(sentAtMs);
    this.#reschedule(quote);
    // A state that changed after the request is newer than the response.
    if (quote.stateSinceMs <= sentAtMs) {
      this.#report(quote, observation, 'poll', this.#recordResponseAndDecideEnd(quote));
    }
  }

  // Subscription

  hasUnsubscribed(): boolean {
    return this.#unsubscribed.size > 0;
  }

  /** Takes the ids of at most `max` of the newest quotes without a subscription. The newest is last. */
  takeUnsubscribed(max: number): string[] {
    const newest = [...this.#unsubscribed].slice(-max);
    for (const quote of newest) {
      this.#unsubscribed.delete(quote);
    }
    return newest.map(({ quoteId }) => quoteId);
  }

  /** Makes quotes due shortly, because the mint has confirmed their subscription. */
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
    this.#unsubscribed = new Set([...lost, ...this.#unsubscribed].slice(-MAX_UNSUBSCRIBED_QUOTES));
  }

  /**
   * Keeps a later state that a subscription reports. Earlier ones are left to polls: the first report after subscribing
   * may be outdated, and a mint could report that it signs (INFLIGHT) again and again.
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
    if (isLaterState(observation.state, quote.report?.state ?? quote.state)) {
      this.#report(quote, observation, 'socket', false);
    }
  }

  // Reports to record

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

  /** Takes reports back that could not be recorded, unless newer ones have arrived. */
  putBackReports(reports: readonly SourcedObservation[]): void {
    for (const report of reports) {
      const quote = this.#quotes.get(report.quoteId);
      if (quote !== undefined && quote.report === null) {
        quote.report = report;
        this.#reported.add(quote);
      }
    }
  }

  /** @param recorded the new states; a quote that is missing is not stored */
  applyRecorded(reports: readonly SourcedObservation[], recorded: readonly RecordedQuote[]): void {
    const recordedById = new Map(recorded.map((each) => [each.quoteId, each]));
    for (const quote of this.#find(reports.map(({ quoteId }) => quoteId))) {
      const result = recordedById.get(quote.quoteId);
      if (result?.hasStateChanged && result.state !== 'EXPIRED') {
        this.#judgeSubscription(quote, result.source);
      }
      if (result?.isWatched) {
        quote.recordedReports += Number(result.hasStateChanged || result.isRejected);
        quote.lastRecordedAtMs = this.#monotonicMs();
        this.#setState(quote, result);
      } else {
        this.#remove(quote);
      }
    }
  }

  /** Relies on the subscription until polling finds a change that it should have reported, and again once it reports one. */
  #judgeSubscription({ isCovered, subscribedAtMs }: QuoteWatch, source: ObservationSource): void {
    const nowMs = this.#monotonicMs();
    const isMissed = isCovered && nowMs > (subscribedAtMs ?? nowMs) + MAX_SUBSCRIPTION_DELAY_MS;
    const isReliable = source === 'socket' || (this.#isSubscriptionReliable && !isMissed);
    if (this.#isSubscriptionReliable !== isReliable) {
      this.#isSubscriptionReliable = isReliable;
      for (const quote of this.#quotes.values()) {
        if (quote.isCovered && quote.heap !== null) {
          this.#reschedule(quote);
        }
      }
    }
  }

  /** Keeps a report until it is recorded, if it is news. */
  #report(
    quote: QuoteWatch,
    observation: QuoteObservation,
    source: ObservationSource,
    shouldEnd: boolean,
  ): void {
    const known = quote.report?.state ?? quote.state;
    const { outcome } = decideTransition(known, observation.state, shouldEnd);
    const isOutdated = quote.report !== null && outcome === 'state_regression';
    if ((outcome === 'unchanged' && !shouldEnd) || isOutdated || this.#isReportPaused(quote)) {
      return;
    }
    quote.report = { ...observation, source, shouldEndWatch: shouldEnd };
    this.#reported.add(quote);
    this.#onReport();
  }

  /** A mint that keeps changing or contradicting a state is recorded ever less often. */
  #isReportPaused({ recordedReports, lastRecordedAtMs }: QuoteWatch): boolean {
    const excess = recordedReports - REPORTS_WITHOUT_PAUSE;
    return (
      excess >= 0 &&
      this.#monotonicMs() < lastRecordedAtMs + computeBackoffMs(excess + 1, REPORT_PAUSE)
    );
  }

  /** Call it for each response of the mint. */
  #recordResponseAndDecideEnd(quote: QuoteWatch): boolean {
    const isCrowded = this.#quotes.size > CROWDED_QUOTES;
    if (!isWatchPeriodOver(quote, this.#clock(), isCrowded)) {
      return false;
    }
    quote.firstPostWatchResponseAtMs ??= this.#monotonicMs();
    const sinceMs = this.#monotonicMs() - quote.firstPostWatchResponseAtMs;
    return shouldEndWatch(quote, this.#clock(), sinceMs, isCrowded);
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

  // Heaps

  #reschedule(quote: QuoteWatch): void {
    this.#unschedule(quote);
    this.#schedule(quote);
  }

  #schedule(quote: QuoteWatch): void {
    const nowMs = this.#monotonicMs();
    const { dueInMs, isUrgent } = computeNextPoll(quote, this.#clock(), {
      sincePollMs: nowMs - quote.lastPolledAtMs,
      stateAgeAtPollMs: quote.lastPolledAtMs - quote.stateSinceMs,
      isCovered: this.#isSubscriptionReliable && quote.isCovered,
    });
    const proofAtMs = (quote.subscribedAtMs ?? -Infinity) + SUBSCRIPTION_PROOF_DELAY_MS;
    const needsProof = quote.state === 'UNPAID' && quote.lastPolledAtMs < proofAtMs;
    const isProofFirst = needsProof && proofAtMs < nowMs + dueInMs;
    const dueAtMs = isProofFirst ? proofAtMs : nowMs + dueInMs;
    quote.dueAtMs = Math.ceil(Math.max(dueAtMs, quote.notBeforeMs));
    quote.heap = isUrgent || isProofFirst ? 'young' : 'others';
    if (quote.batchLimit < NO_BATCH_LIMIT) {
      quote.heap = quote.batchLimit === 0 ? 'alone' : 'suspect';
    }
    this.#heaps[quote.heap].push(quote);
  }

  #unschedule(quote: QuoteWatch): void {
    if (quote.heap !== null) {
      this.#heaps[quote.heap].remove(quote);
      quote.heap = null;
    }
  }

  /** Takes young quotes, and then those of the other heaps, for which a part is kept. */
  #takeYoungFirst(max: number, lookAheadMs: number, otherHeaps: readonly HeapName[]): QuoteWatch[] {
    const taken = this.#take('young', Math.ceil(max * (1 - SHARE_OF_OTHERS)), lookAheadMs);
    for (const heap of [...otherHeaps, 'young'] as const) {
      taken.push(...this.#take(heap, max - taken.length, lookAheadMs));
    }
    return taken;
  }

  #take(heapName: HeapName, max: number, lookAheadMs: number): QuoteWatch[] {
    const heap = this.#heaps[heapName];
    const untilMs = this.#monotonicMs() + lookAheadMs;
    const taken: QuoteWatch[] = [];
    let limit = max;
    for (
      let next = heap.peek();
      next !== undefined && next.dueAtMs <= untilMs;
      next = heap.peek()
    ) {
      limit = heapName === 'suspect' ? Math.min(limit, next.batchLimit) : limit;
      if (taken.length >= limit) {
        break;
      }
      this.#unschedule(next);
      taken.push(next);
    }
    return taken;
  }

  /** Schedules all quotes anew if the wall clock was set, because the schedule depends on their age. */
  #handleClockJump(offsetMs: number): void {
    if (Math.abs(offsetMs - this.#clockOffsetMs) > MIN_CLOCK_JUMP_MS) {
      this.#clockOffsetMs = offsetMs;
      for (const quote of this.#quotes.values()) {
        if (quote.heap !== null) {
          this.#reschedule(quote);
        }
      }
    }
  }
}
