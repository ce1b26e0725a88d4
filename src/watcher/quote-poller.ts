import type { Clock } from '../clock.ts';
import type { MintClient } from '../mints/mint-client.ts';
import type { MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import {
  endsWatch,
  isWatchOver,
  type PollHistory,
  pollIntervalMs,
  pollUrgency,
  SHORTEST_INTERVAL_MS,
} from '../quotes/poll-schedule.ts';
import { isPaidState } from '../quotes/quote.ts';
import type { QuoteObservation } from '../mints/quote-answer.ts';
import type { WatchedQuote } from '../quotes/quote-watch-store.ts';
import type { NewObservation, RecordedQuote } from '../quotes/record-observations.ts';
import { BatchBisector } from './batch-bisector.ts';

/** The shortest time between two batches: Nutshell allows 20 requests a minute, and this makes 15. */
export const POLL_GAP_MS = 4_000;

/** The same while more is due than was answered: at a mint with many quotes, or after a failure. */
const BACKLOG_GAP_MS = 250;

/** After so many polls in a row without an answer, a mint is polled at the normal gap. */
const SILENT_POLLS_OF_AN_OUTAGE = 3;

/** A poll includes quotes that will be due within this time: the next one may have to wait for seconds. */
const LOOK_AHEAD_MS = 2_000;

/** cdk answers batches without advertising them, up to this size. */
const UNADVERTISED_BATCH_SIZE = 100;

/** Single reads in one poll, and how many of them run at a time. */
const READS_PER_POLL = 16;
const READS_AT_A_TIME = 4;

/**
 * If batches have to rest for longer than this, the most urgent quotes are read one by one meanwhile. The
 * pauses of an outage are not longer.
 */
const LONG_REST_MS = 10_000;

/** A quote that could not be read goes behind all others for this time: the mint may fail for it alone. */
const LAST_FOR_MS = 60_000;

/** A mint without batches may get them with its next version, or had a bad proxy for a while. */
const BATCHES_AGAIN_AFTER_MS = 15 * 60_000;

/** After so many failed batches in a row, the most urgent quotes are read alone too. */
const FAILURES_BEFORE_READING = 3;

/** After so many, if single reads work, the batch route is broken. A mint in trouble fails a few times in a row. */
const FAILURES_OF_A_BROKEN_ROUTE = 12;

/**
 * If the mint answers single reads of ids for which it rejected batches, and has done so this many times
 * since a batch was answered, it rejects batches for another reason: the batch route is broken.
 */
const NEEDLESS_REJECTIONS_OF_A_BROKEN_ROUTE = 3;

/** Failures that a smaller batch may avoid. */
const TOO_LARGE: ReadonlySet<string> = new Set(['timed out', 'answer too large']);

/** A watched quote in memory. Monotonic times, in milliseconds. */
interface PolledQuote extends WatchedQuote {
  polledAtMs: number;
  /** When a single read of it last failed; null after an answer. */
  failedAtMs: number | null;
  stateSinceMs: number;
  /** When the mint first answered after the time to watch was over; null before. */
  lateAnswerAtMs: number | null;
  /** Whether the mint reported it as unpaid after its payment. */
  hasGoneBackwards: boolean;
  /** Why the quote is not asked about in batches: a batch left it out, or was rejected for it. */
  readAlone: 'no' | 'untilFound' | 'always';
}

export interface QuotePollerParts {
  mintUrl: string;
  client: Pick<MintClient, 'readQuote' | 'checkQuotes'>;
  limiter: Pick<MintRateLimiter, 'waitMs'>;
  /** The largest batch that the mint advertises (NUT-29); null if it advertises none. */
  maxBatchSize: () => Promise<number | null>;
  /** Whether a subscription reports the quote too. */
  isCovered: (quoteId: string) => boolean;
  /** The shortest time between two batches, in milliseconds. */
  pollGapMs: number;
  /** Random in production: after a start, large answers of many mints must not arrive at one moment. */
  firstPollDelayMs?: number;
  clock: Clock;
  monotonicMs: () => number;
}

/**
 * Asks one mint about its watched quotes, by the schedule of `domain/poll-schedule.ts`, in batches
 * (NUT-29) or one by one. The schedule lives in memory, and answers without news write nothing.
 */
export class QuotePoller {
  readonly #parts: QuotePollerParts;
  readonly #quotes = new Map<string, PolledQuote>();
  readonly #bisector = new BatchBisector();
  /** Suspects of the bisector take turns with the other quotes. */
  #isTurnOfSuspects = false;
  #batchSize = Number.POSITIVE_INFINITY;
  #batchFailures = 0;
  #needlessRejections = 0;
  #noBatchesUntilMs = Number.NEGATIVE_INFINITY;
  #nextPollAtMs: number;
  #isMintSilent = false;
  /** Polls in a row that the mint did not answer. */
  #silentPolls = 0;

  constructor(parts: QuotePollerParts) {
    this.#parts = parts;
    this.#nextPollAtMs = parts.monotonicMs() + (parts.firstPollDelayMs ?? 0);
  }

  /** Whether the mint gave no usable answer the last time. */
  get isMintSilent(): boolean {
    return this.#isMintSilent;
  }

  /** The watched quotes, the newest last. */
  quoteIds(): string[] {
    const quotes = [...this.#quotes.values()];
    return quotes.sort((one, other) => one.id - other.id).map(({ quoteId }) => quoteId);
  }

  /**
   * Watches quotes. One that was just created is polled after its interval. Any other is due at once; if
   * there are many, young ones go first because their urgency grows faster. A known one takes over the
   * state of its row: if that was read just before a payment was recorded, the next poll finds it again.
   */
  add(quotes: readonly WatchedQuote[], isJustCreated: boolean): void {
    const { clock, monotonicMs } = this.#parts;
    const nowMs = monotonicMs();
    for (const quote of quotes) {
      const known = this.#quotes.get(quote.quoteId);
      if (known !== undefined && !isJustCreated && known.state !== quote.state) {
        const { state, paidAtMs } = quote;
        Object.assign(known, { state, paidAtMs, stateSinceMs: nowMs, lateAnswerAtMs: null });
      } else if (known === undefined) {
        // The longest interval: a subscription that covers the quote soon does not postpone its first poll.
        const neverPolled = { stateAgeAtPollMs: 0, isCovered: true };
        const sincePollMs = isJustCreated ? 0 : pollIntervalMs(quote, clock(), neverPolled);
        this.#quotes.set(quote.quoteId, {
          ...quote,
          polledAtMs: nowMs - sincePollMs,
          failedAtMs: null,
          stateSinceMs: nowMs,
          lateAnswerAtMs: null,
          hasGoneBackwards: false,
          readAlone: 'no',
        });
      }
    }
  }

  update(recorded: readonly RecordedQuote[]): void {
    const stateSinceMs = this.#parts.monotonicMs();
    for (const { quoteId, state, paidAtMs, isWatched } of recorded) {
      const quote = this.#quotes.get(quoteId);
      if (!isWatched) {
        this.#quotes.delete(quoteId);
      } else if (quote !== undefined && quote.state !== state) {
        Object.assign(quote, { state, paidAtMs, stateSinceMs, lateAnswerAtMs: null });
      }
    }
  }

  forget(quoteId: string): void {
    this.#quotes.delete(quoteId);
  }

  /** Whether an observation says something that is not recorded yet. */
  isNews({ quoteId, state }: QuoteObservation): boolean {
    const quote = this.#quotes.get(quoteId);
    return quote !== undefined && quote.state !== state;
  }

  /** How long the most overdue quote has been due, in milliseconds; 0 if none is. */
  overdueMs(): number {
    const { clock, monotonicMs } = this.#parts;
    const nowMs = clock();
    const monotonicNowMs = monotonicMs();
    let longestMs = 0;
    for (const quote of this.#quotes.values()) {
      const sincePollMs = monotonicNowMs - quote.polledAtMs;
      const history = this.#historyOf(quote, sincePollMs);
      const overdueMs = sincePollMs - pollIntervalMs(quote, nowMs, history);
      longestMs = Math.max(longestMs, overdueMs);
    }
    return longestMs;
  }

  /** Milliseconds until the mint may be polled again; 0 is now. */
  waitMs(): number {
    const { limiter, mintUrl, monotonicMs } = this.#parts;
    const routeWaitMs = limiter.waitMs(mintUrl, this.#usesBatches() ? 'check' : 'read');
    return Math.max(0, this.#nextPollAtMs - monotonicMs(), routeWaitMs);
  }

  /**
   * Asks the mint about what is due, if anything is.
   *
   * @returns the answers that are news or end a watch; null if nothing was due
   */
  async poll(): Promise<NewObservation[] | null> {
    const usesBatches = this.#usesBatches();
    if (!usesBatches) {
      // Suspects would wait for batches.
      this.#bisector.clear();
    }
    const dueSoon = this.#due(LOOK_AHEAD_MS);
    if (!dueSoon.some(({ urgency }) => urgency > 0) && !this.#bisector.hasSuspects) {
      return null;
    }
    const due = dueSoon.map(({ quote }) => quote);
    const sentAtMs = this.#parts.monotonicMs();
    this.#nextPollAtMs = sentAtMs + this.#parts.pollGapMs;
    const observations = usesBatches
      ? await this.#pollTogether(due)
      : await this.#readEach(due.slice(0, READS_PER_POLL));
    const hasBacklog = due.length > observations.length || this.#bisector.hasSuspects;
    this.#noteAvailability();
    if (hasBacklog && this.#silentPolls < SILENT_POLLS_OF_AN_OUTAGE) {
      this.#nextPollAtMs = sentAtMs + Math.min(BACKLOG_GAP_MS, this.#parts.pollGapMs);
    }
    return observations
      .filter((observation) => this.#isReportable(observation, sentAtMs))
      .map((observation) => ({
        ...observation,
        source: 'poll',
        endsWatch: this.#endsWatch(observation),
      }));
  }

  /** After an outage, the quotes that were tried meanwhile are not to blame, and no longer go last. */
  #noteAvailability(): void {
    if (this.#isMintSilent) {
      this.#silentPolls += 1;
      return;
    }
    if (this.#silentPolls >= SILENT_POLLS_OF_AN_OUTAGE) {
      for (const quote of this.#quotes.values()) {
        quote.failedAtMs = null;
      }
    }
    this.#silentPolls = 0;
  }

  async #pollTogether(due: readonly PolledQuote[]): Promise<QuoteObservation[]> {
    const together = due.filter(({ readAlone }) => readAlone === 'no');
    const alone = due.filter(({ readAlone }) => readAlone !== 'no');
    return [
      ...(await this.#pollBatch(together.map(({ quoteId }) => quoteId))),
      ...(await this.#readEach(alone.slice(0, READS_AT_A_TIME))),
    ];
  }

  /** Sends one batch: of the most urgent quotes, or of suspects. */
  async #pollBatch(dueIds: readonly string[]): Promise<QuoteObservation[]> {
    const { mintUrl, client, maxBatchSize } = this.#parts;
    const limit = (await maxBatchSize()) ?? UNADVERTISED_BATCH_SIZE;
    const size = Math.min(this.#batchSize, limit);
    const suspects = this.#isTurnOfSuspects || dueIds.length === 0 ? this.#bisector.next() : null;
    this.#isTurnOfSuspects = suspects === null;
    const batch = (suspects ?? dueIds.slice(0, size)).filter((id) => this.#quotes.has(id));
    if (batch.length === 0) {
      return [];
    }
    const answer = await client.checkQuotes(mintUrl, batch);
    if (answer.outcome !== 'rate_limited') {
      this.#isMintSilent = answer.outcome === 'unavailable';
    }
    switch (answer.outcome) {
      case 'found':
        this.#batchSize = batch.length >= size ? size * 2 : this.#batchSize;
        this.#takeBatch(batch, answer.observations);
        return answer.observations;
      case 'refused':
        this.#takeRejection(batch);
        return [];
      case 'unsupported':
        this.#stopBatches();
        return [];
      case 'unavailable':
        // Suspects join the other quotes then: nothing was found out about them.
        return await this.#takeFailure(batch, size, answer.reason);
      case 'rate_limited':
        if (suspects !== null) {
          this.#bisector.putBack(suspects);
        }
        return [];
    }
  }

  /** An id that the mint left out of its answer is read alone next time. */
  #takeBatch(batch: readonly string[], observations: readonly QuoteObservation[]): void {
    this.#batchFailures = 0;
    this.#needlessRejections = 0;
    const answered = new Set(observations.map(({ quoteId }) => quoteId));
    for (const quoteId of batch) {
      this.#markPolled(quoteId, answered.has(quoteId) ? 'no' : 'untilFound');
    }
  }

  /** Most likely the mint does not know one of the ids (NUT-29). */
  #takeRejection(batch: readonly string[]): void {
    const badId = this.#bisector.rejected(batch);
    const quote = badId === null ? undefined : this.#quotes.get(badId);
    if (quote !== undefined) {
      quote.readAlone = 'always';
    }
  }

  /**
   * A mint may be too slow for a large batch, or fail because of one quote in it, so the next batch is
   * smaller. If batches keep failing while the mint answers single reads, its batch route is broken.
   */
  async #takeFailure(
    batch: readonly string[],
    size: number,
    reason: string,
  ): Promise<QuoteObservation[]> {
    this.#batchFailures += 1;
    const isRepeated = this.#batchFailures >= FAILURES_BEFORE_READING;
    if (isRepeated || TOO_LARGE.has(reason)) {
      this.#batchSize = Math.max(1, Math.floor(size / 2));
    }
    if (!isRepeated) {
      return [];
    }
    const first = batch.slice(0, READS_AT_A_TIME).flatMap((id) => this.#quotes.get(id) ?? []);
    const observations = await this.#readEach(first);
    if (this.#batchFailures >= FAILURES_OF_A_BROKEN_ROUTE && observations.length > 0) {
      this.#stopBatches();
    }
    return observations;
  }

  /** Reads quotes one by one (NUT-23), until the mint fails or rests. */
  async #readEach(quotes: readonly PolledQuote[]): Promise<QuoteObservation[]> {
    const observations: QuoteObservation[] = [];
    const waiting = quotes.values();
    const readNext = async () => {
      for (const quote of waiting) {
        const observation = await this.#read(quote);
        if (observation === null) {
          return;
        }
        observations.push(observation);
      }
    };
    await Promise.all(Array.from({ length: READS_AT_A_TIME }, readNext));
    return observations;
  }

  /** Null if the mint did not answer. */
  async #read(quote: PolledQuote): Promise<QuoteObservation | null> {
    const { mintUrl, client } = this.#parts;
    const { quoteId, readAlone } = quote;
    const answer = await client.readQuote(mintUrl, quoteId);
    switch (answer.outcome) {
      case 'found':
        this.#isMintSilent = false;
        this.#markPolled(quoteId, readAlone === 'always' ? 'always' : 'no');
        this.#needlessRejections += readAlone === 'always' ? 1 : 0;
        if (this.#needlessRejections >= NEEDLESS_REJECTIONS_OF_A_BROKEN_ROUTE) {
          this.#stopBatches();
        }
        return answer.observation;
      case 'not_found':
        this.#isMintSilent = false;
        // The mint may know it later, for example after a restored backup. For the recipient, a quote
        // that the mint does not know is as good as unpaid.
        this.#markPolled(quoteId, readAlone === 'no' ? 'no' : 'untilFound');
        return { quoteId, state: 'UNPAID' };
      case 'unavailable':
        this.#isMintSilent = true;
        quote.failedAtMs = this.#parts.monotonicMs();
        return null;
      case 'rate_limited':
        return null;
    }
  }

  #markPolled(quoteId: string, readAlone: PolledQuote['readAlone']): void {
    const quote = this.#quotes.get(quoteId);
    if (quote !== undefined) {
      quote.polledAtMs = this.#parts.monotonicMs();
      quote.failedAtMs = null;
      quote.readAlone = readAlone;
    }
  }

  #stopBatches(): void {
    this.#noBatchesUntilMs = this.#parts.monotonicMs() + BATCHES_AGAIN_AFTER_MS;
    this.#batchFailures = 0;
    this.#needlessRejections = 0;
    this.#bisector.clear();
    for (const quote of this.#quotes.values()) {
      quote.readAlone = 'no';
    }
  }

  #usesBatches(): boolean {
    const { limiter, mintUrl, monotonicMs } = this.#parts;
    const isResting = limiter.waitMs(mintUrl, 'check') > LONG_REST_MS;
    return monotonicMs() >= this.#noBatchesUntilMs && !isResting;
  }

  /**
   * The quotes that are due within this time, most urgent first; among equals the youngest first. The
   * urgency is that of now: 0 for a quote that is not due yet. Quotes that could not be read take turns
   * behind all others for a minute.
   */
  #due(lookAheadMs: number): { quote: PolledQuote; urgency: number }[] {
    const { clock, monotonicMs } = this.#parts;
    const nowMs = clock();
    const monotonicNowMs = monotonicMs();
    const due: { quote: PolledQuote; urgency: number }[] = [];
    for (const quote of this.#quotes.values()) {
      // Thousands of quotes are looked at every second: most were just polled, and need no closer look.
      const sincePollMs = monotonicNowMs - quote.polledAtMs;
      if (sincePollMs + lookAheadMs < SHORTEST_INTERVAL_MS) {
        continue;
      }
      // The answers of a batch wait for the single reads beside it, so those that fail are left out.
      if (quote.readAlone !== 'no' && failedTurn(quote, monotonicNowMs) > 0) {
        continue;
      }
      const history = this.#historyOf(quote, sincePollMs + lookAheadMs);
      if (pollUrgency(quote, nowMs, history) > 0 && !this.#bisector.isSuspect(quote.quoteId)) {
        const urgency = pollUrgency(quote, nowMs, { ...history, sincePollMs });
        due.push({ quote, urgency });
      }
    }
    const turnOf = ({ quote }: { quote: PolledQuote }) => failedTurn(quote, monotonicNowMs);
    return due.sort(
      (one, other) =>
        turnOf(one) - turnOf(other) ||
        other.urgency - one.urgency ||
        other.quote.createdAtMs - one.quote.createdAtMs,
    );
  }

  #historyOf({ quoteId, polledAtMs, stateSinceMs }: PolledQuote, sincePollMs: number): PollHistory {
    return {
      sincePollMs,
      stateAgeAtPollMs: polledAtMs - stateSinceMs,
      isCovered: this.#parts.isCovered(quoteId),
    };
  }

  /**
   * Whether an answer has to be recorded. One that was asked for before the state changed is old, and a
   * payment that the mint takes back is reported once.
   */
  #isReportable(observation: QuoteObservation, sentAtMs: number): boolean {
    const quote = this.#quotes.get(observation.quoteId);
    if (quote === undefined || quote.stateSinceMs > sentAtMs) {
      return false;
    }
    const isBackwards = observation.state === 'UNPAID' && isPaidState(quote.state);
    const isKnown = isBackwards && quote.hasGoneBackwards;
    quote.hasGoneBackwards ||= isBackwards;
    return (this.isNews(observation) && !isKnown) || this.#endsWatch(observation);
  }

  /** Whether an answer ends the watch if it is no news. */
  #endsWatch({ quoteId }: QuoteObservation): boolean {
    const { clock, monotonicMs } = this.#parts;
    const quote = this.#quotes.get(quoteId);
    if (quote === undefined || !isWatchOver(quote, clock())) {
      return false;
    }
    quote.lateAnswerAtMs ??= monotonicMs();
    return endsWatch(quote, clock(), monotonicMs() - quote.lateAnswerAtMs);
  }
}

/** 0 for a quote in its usual turn; greater for one that could not be read, the last one at the end. */
function failedTurn({ failedAtMs }: PolledQuote, nowMs: number): number {
  return failedAtMs !== null && nowMs < failedAtMs + LAST_FOR_MS ? failedAtMs : 0;
}
