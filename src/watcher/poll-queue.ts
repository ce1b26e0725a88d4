import type { Clock } from '../clock.ts';
import type { QuoteState } from '../database/schema.ts';
import type { ObservedState, QuoteObservation } from '../mints/quote-responses.ts';
import type { RecordedQuote, SourcedObservation } from '../quotes/observation-recorder.ts';
import type { WatchedQuote } from '../quotes/watched-quote-store.ts';
import { DueHeap, type DueItem } from './due-heap.ts';
import {
  computeNextPoll,
  computePollIntervalMs,
  isWatchPeriodOver,
  shouldEndWatch,
} from './poll-schedule.ts';

/** After a failed read, other quotes go first for this time, because the mint may fail for this quote only. */
const FAILED_READ_DEPRIORITIZED_MS = 60_000;

/**
 * An unpaid quote is polled once, this long after the mint confirmed its subscription. Nutshell reports no payment that
 * arrives while it registers the subscription.
 */
const SUBSCRIPTION_PROOF_DELAY_MS = 2_000;

/** Smaller changes of the wall clock, by which its time is kept exact, do not matter for the schedule. */
const MIN_CLOCK_JUMP_MS = 10_000;

/** A change that polling finds within this time after the subscription does not mean that the mint reports none. */
const MAX_SUBSCRIPTION_DELAY_MS = 10_000;

/** Above this number of watched quotes, the mint's expired quotes leave the watch earlier. They take about 0.5 kB each. */
const CROWDED_QUOTES = 20_000;

/** The part of each batch that is kept for quotes that are not urgent, so that urgent ones cannot delay them forever. */
const NOT_URGENT_SHARE = 0.25;

/** How long observations of a quote are ignored after a rejection. Doubles with each rejection. */
const MIN_REJECTION_BACKOFF_MS = 2_000;
const MAX_REJECTION_BACKOFF_MS = 60 * 60_000;

/**
 * A watched quote in memory. Its own times, unlike those of {@link WatchedQuote}, are monotonic milliseconds. They are
 * whole numbers, which take less memory.
 */
export interface PolledQuote extends WatchedQuote, DueItem {
  /** The list that contains the quote; null while it is being polled. */
  lane: Lane | null;
  lastPolledAtMs: number;
  /** When the mint confirmed the last subscription; null if it has confirmed none. */
  subscribedAtMs: number | null;
  stateSinceMs: number;
  /** When the mint first responded after the watch period; null before that. */
  firstPostWatchResponseAtMs: number | null;
  /** How many observations the database has rejected, and when the last of them was. */
  rejections: number;
  lastRejectedAtMs: number | null;
  /**
   * Whether the quote became INFLIGHT after it was PAID, because the mint began to sign. This is recorded only once:
   * each change costs a transaction, and a hostile mint could report changes without end.
   */
  hasReturnedToInflight: boolean;
}

/**
 * Why a quote is read in a request of its own instead of in batches: `untilFound` if a batch response omitted it,
 * `always` if the mint rejected a batch because of it.
 */
export type SingleReadMode = 'untilFound' | 'always';

/**
 * A list of waiting quotes. Quotes are polled in this order: those whose subscription must be proven, those that may
 * just have been paid, all others, and those whose read failed within the last minute. Quotes that are read singly wait
 * in a list of their own.
 */
type Lane = 'proof' | 'urgent' | 'normal' | 'single' | 'failed';

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
  readonly #lanes: Record<Lane, DueHeap<PolledQuote>> = {
    proof: new DueHeap(),
    urgent: new DueHeap(),
    normal: new DueHeap(),
    single: new DueHeap(),
    failed: new DueHeap(),
  };
  /** By quote id. */
  readonly #singleReadModes = new Map<string, SingleReadMode>();
  #unpaidCount = 0;
  /** The difference between the two clocks. */
  #clockOffsetMs: number;

  constructor(deps: PollQueueDeps) {
    this.#deps = { ...deps, monotonicMs: () => Math.floor(deps.monotonicMs()) };
    this.#clockOffsetMs = deps.clock() - deps.monotonicMs();
  }

  get(quoteId: string): PolledQuote | undefined {
    return this.#quotes.get(quoteId);
  }

  /** How many of the quotes are unpaid. */
  get unpaidCount(): number {
    return this.#unpaidCount;
  }

  get size(): number {
    return this.#quotes.size;
  }

  getSingleReadMode(quoteId: string): SingleReadMode | undefined {
    return this.#singleReadModes.get(quoteId);
  }

  setSingleReadMode(quoteId: string, mode: SingleReadMode): void {
    this.#singleReadModes.set(quoteId, mode);
  }

  /** Returns the ids of at most `max` of the newest quotes. The newest is last. */
  listNewestIds(max: number): string[] {
    return [...this.#quotes.keys().drop(Math.max(0, this.#quotes.size - max))];
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
        // The longest possible interval, so that the quote is due.
        const context = { stateAgeAtPollMs: 0, isCovered: true };
        const sincePollMs = isJustCreated ? 0 : computePollIntervalMs(quote, clock(), context);
        const { id, quoteId, state, createdAtMs, expiresAtMs, paidAtMs } = quote;
        const added: PolledQuote = {
          id,
          quoteId,
          state,
          createdAtMs,
          expiresAtMs,
          paidAtMs,
          lane: null,
          dueAtMs: 0,
          heapIndex: -1,
          lastPolledAtMs: nowMs - sincePollMs,
          subscribedAtMs: null,
          stateSinceMs: nowMs,
          firstPostWatchResponseAtMs: null,
          rejections: 0,
          lastRejectedAtMs: null,
          hasReturnedToInflight: false,
        };
        this.#quotes.set(quoteId, added);
        this.#unpaidCount += Number(state === 'UNPAID');
        this.#schedule(added);
      }
    }
  }

  applyRecorded(recorded: readonly RecordedQuote[]): void {
    for (const { quoteId, state, paidAtMs, isWatched, isRejected } of recorded) {
      const quote = this.#quotes.get(quoteId);
      if (!isWatched) {
        this.remove(quoteId);
      } else if (quote !== undefined) {
        quote.rejections += Number(isRejected);
        quote.lastRejectedAtMs = isRejected ? this.#deps.monotonicMs() : quote.lastRejectedAtMs;
        quote.hasReturnedToInflight ||= isReturnToInflight(quote.state, state);
        this.#setState(quote, { state, paidAtMs });
      }
    }
  }

  remove(quoteId: string): void {
    const quote = this.#quotes.get(quoteId);
    if (quote !== undefined) {
      this.#unschedule(quote);
      this.#quotes.delete(quoteId);
      this.#unpaidCount -= Number(quote.state === 'UNPAID');
      this.#singleReadModes.delete(quoteId);
    }
  }

  /** Makes quotes due shortly, because the mint has confirmed their subscription. */
  handleSubscribed(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      const quote = this.#quotes.get(quoteId);
      if (quote !== undefined) {
        quote.subscribedAtMs = this.#deps.monotonicMs();
        this.#reschedule(quote);
      }
    }
  }

  /** Makes quotes due earlier, because the mint no longer reports their changes. */
  handleUncovered(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      const quote = this.#quotes.get(quoteId);
      if (quote !== undefined) {
        this.#reschedule(quote);
      }
    }
  }

  /** Whether the mint has confirmed a subscription of the quote just now, so that it may not report changes yet. */
  isJustSubscribed(quoteId: string): boolean {
    const subscribedAtMs = this.#quotes.get(quoteId)?.subscribedAtMs ?? null;
    return (
      subscribedAtMs !== null &&
      this.#deps.monotonicMs() < subscribedAtMs + MAX_SUBSCRIPTION_DELAY_MS
    );
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

  /**
   * Records that the mint has reported a state of the quote.
   *
   * @param sentAtMs when the request was sent
   */
  markPolled(quoteId: string, sentAtMs: number, singleReadMode?: SingleReadMode): void {
    const quote = this.#quotes.get(quoteId);
    if (quote === undefined) {
      return;
    }
    quote.lastPolledAtMs = Math.floor(sentAtMs);
    if (singleReadMode === undefined) {
      this.#singleReadModes.delete(quoteId);
    } else {
      this.#singleReadModes.set(quoteId, singleReadMode);
    }
    this.#reschedule(quote);
  }

  /** Makes other quotes go first for a minute. A quote that is only read singly is not read in that time. */
  markReadFailed(quote: PolledQuote): void {
    if (this.#quotes.get(quote.quoteId) === quote) {
      this.#unschedule(quote);
      const isSingle = this.#singleReadModes.has(quote.quoteId);
      const nowMs = this.#deps.monotonicMs();
      this.#place(
        quote,
        isSingle ? 'single' : 'failed',
        nowMs + (isSingle ? FAILED_READ_DEPRIORITIZED_MS : 0),
      );
    }
  }

  clearSingleReadModes(): void {
    this.#singleReadModes.clear();
  }

  /** Returns how long the most overdue quote has been due, in milliseconds; 0 if no quote is due. */
  getMaxOverdueMs(): number {
    const nowMs = this.#deps.monotonicMs();
    const overdueMs = Object.values(this.#lanes).map(
      (lane) => nowMs - (lane.peek()?.dueAtMs ?? nowMs),
    );
    return Math.max(0, ...overdueMs);
  }

  /** Whether a quote is due now. */
  hasDue(): boolean {
    const nowMs = this.#deps.monotonicMs();
    this.#handleClockJump(this.#deps.clock() - nowMs);
    return Object.values(this.#lanes).some((lane) => (lane.peek()?.dueAtMs ?? Number.NaN) <= nowMs);
  }

  /**
   * Takes quotes for a batch that are due now or within `lookAheadMs`. The caller must pass the quotes that were not
   * polled to {@link putBack}.
   */
  takeForBatch(max: number, lookAheadMs: number): PolledQuote[] {
    return this.#takeInOrder(max, lookAheadMs, ['normal', 'failed']);
  }

  /** Like {@link takeForBatch}, for the quotes that are not read in batches. */
  takeForSingleReads(max: number): PolledQuote[] {
    return this.#take('single', max, 0);
  }

  /** Like {@link takeForBatch}, for single reads of any quotes. */
  takeForAnyReads(max: number, lookAheadMs: number): PolledQuote[] {
    return this.#takeInOrder(max, lookAheadMs, ['normal', 'single', 'failed']);
  }

  /** Takes quotes back that were not polled. */
  putBack(quotes: readonly PolledQuote[]): void {
    for (const quote of quotes) {
      if (quote.lane === null && this.#quotes.get(quote.quoteId) === quote) {
        this.#schedule(quote);
      }
    }
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
    const isBackingOff =
      lastRejectedAtMs !== null && this.#deps.monotonicMs() < lastRejectedAtMs + backoffMs;
    return (
      quote.state !== reported &&
      !isBackingOff &&
      !(hasReturnedToInflight && isReturnToInflight(quote.state, reported))
    );
  }

  #setState(quote: PolledQuote, { state, paidAtMs }: Pick<WatchedQuote, 'state' | 'paidAtMs'>) {
    if (quote.state !== state) {
      this.#unpaidCount += Number(state === 'UNPAID') - Number(quote.state === 'UNPAID');
      const stateSinceMs = this.#deps.monotonicMs();
      Object.assign(quote, { state, paidAtMs, stateSinceMs, firstPostWatchResponseAtMs: null });
      this.#reschedule(quote);
    }
  }

  #reschedule(quote: PolledQuote): void {
    this.#unschedule(quote);
    this.#schedule(quote);
  }

  /** Adds a quote to its lane, as `poll-schedule.ts` determines. */
  #schedule(quote: PolledQuote): void {
    const { clock, monotonicMs, isCovered } = this.#deps;
    const nowMs = monotonicMs();
    const { dueInMs, isUrgent } = computeNextPoll(quote, clock(), {
      sincePollMs: nowMs - quote.lastPolledAtMs,
      stateAgeAtPollMs: quote.lastPolledAtMs - quote.stateSinceMs,
      isCovered: isCovered(quote.quoteId),
    });
    const proofAtMs = (quote.subscribedAtMs ?? Number.NaN) + SUBSCRIPTION_PROOF_DELAY_MS;
    const needsProof = quote.state === 'UNPAID' && quote.lastPolledAtMs < proofAtMs;
    const isProofFirst = needsProof && proofAtMs < nowMs + dueInMs;
    const dueAtMs = isProofFirst ? proofAtMs : nowMs + dueInMs;
    if (this.#singleReadModes.has(quote.quoteId)) {
      this.#place(quote, 'single', dueAtMs);
    } else if (isProofFirst) {
      this.#place(quote, 'proof', dueAtMs);
    } else {
      this.#place(quote, isUrgent ? 'urgent' : 'normal', dueAtMs);
    }
  }

  /** Schedules all quotes anew if the wall clock was set, because the schedule depends on their age. */
  #handleClockJump(offsetMs: number): void {
    if (Math.abs(offsetMs - this.#clockOffsetMs) > MIN_CLOCK_JUMP_MS) {
      this.#clockOffsetMs = offsetMs;
      for (const quote of this.#quotes.values()) {
        if (quote.lane !== null) {
          this.#reschedule(quote);
        }
      }
    }
  }

  #place(quote: PolledQuote, lane: Lane, dueAtMs: number): void {
    quote.lane = lane;
    quote.dueAtMs = Math.ceil(dueAtMs);
    this.#lanes[lane].push(quote);
  }

  #unschedule(quote: PolledQuote): void {
    if (quote.lane !== null) {
      this.#lanes[quote.lane].remove(quote);
      quote.lane = null;
    }
  }

  /** Takes urgent quotes, and then those of the other lanes, for which a part of the batch is kept. */
  #takeInOrder(max: number, lookAheadMs: number, otherLanes: readonly Lane[]): PolledQuote[] {
    this.#promoteFailed();
    const taken: PolledQuote[] = [];
    const take = (lane: Lane, upTo: number) =>
      // A subscription is not proven by an earlier poll.
      taken.push(...this.#take(lane, upTo - taken.length, lane === 'proof' ? 0 : lookAheadMs));
    const maxUrgent = Math.ceil(max * (1 - NOT_URGENT_SHARE));
    take('proof', maxUrgent);
    take('urgent', maxUrgent);
    for (const lane of [...otherLanes, 'proof', 'urgent'] as const) {
      take(lane, max);
    }
    return taken;
  }

  #take(lane: Lane, max: number, lookAheadMs: number): PolledQuote[] {
    const untilMs = this.#deps.monotonicMs() + lookAheadMs;
    const taken: PolledQuote[] = [];
    let next = this.#lanes[lane].peek();
    while (next !== undefined && next.dueAtMs <= untilMs && taken.length < max) {
      this.#unschedule(next);
      taken.push(next);
      next = this.#lanes[lane].peek();
    }
    return taken;
  }

  /** Treats quotes as usual again whose read failed more than a minute ago. */
  #promoteFailed(): void {
    const untilMs = this.#deps.monotonicMs() - FAILED_READ_DEPRIORITIZED_MS;
    let next = this.#lanes.failed.peek();
    while (next !== undefined && next.dueAtMs <= untilMs) {
      this.#reschedule(next);
      next = this.#lanes.failed.peek();
    }
  }

  /** Call it for each response of the mint. */
  #recordResponseAndDecideEnd(quote: PolledQuote): boolean {
    const { clock, monotonicMs } = this.#deps;
    const isCrowded = this.#quotes.size > CROWDED_QUOTES;
    if (!isWatchPeriodOver(quote, clock(), isCrowded)) {
      return false;
    }
    quote.firstPostWatchResponseAtMs ??= monotonicMs();
    const sinceMs = monotonicMs() - quote.firstPostWatchResponseAtMs;
    return shouldEndWatch(quote, clock(), sinceMs, isCrowded);
  }
}

/** Whether the mint signs the ecash of a quote that was PAID before. */
function isReturnToInflight(from: QuoteState | undefined, to: QuoteState): boolean {
  return from === 'PAID' && to === 'INFLIGHT';
}
