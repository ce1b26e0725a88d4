import type { Clock } from '../clock.ts';
import type { MintLimits } from '../mints/limits.ts';
import type { CheckQuotesResult, MintClient, ReadQuoteResult } from '../mints/mint-client.ts';
import type { MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { MintContact } from '../mints/mint-store.ts';
import type { QuoteObservation } from '../mints/quote-responses.ts';
import type { SourcedObservation } from '../quotes/observation-recorder.ts';
import { BatchBisector } from './batch-bisector.ts';
import type { PolledQuote, PollQueue } from './poll-queue.ts';

/** Between two polls of a mint. Payments that a new subscription misses are found within four seconds. */
export const MIN_POLL_INTERVAL_MS = 1_000;

/** For a mint with a learned rate limit, or that is down: 15 polls per minute. Nutshell allows 20 requests. */
const SLOW_POLL_FACTOR = 4;

/** Between two polls while due quotes remain, because there are many or because a poll failed. */
const BACKLOG_POLL_INTERVAL_MS = 250;

/** After this many failed polls in a row, the mint is considered down. */
const FAILED_POLLS_BEFORE_OUTAGE = 3;

/** While more quotes than this are suspects, only suspects are sent. Otherwise all quotes could become suspects. */
const MAX_SUSPECTS = 2_000;

/** A poll includes quotes that are due within this time, because the rate limit may delay the next poll. */
const LOOK_AHEAD_MS = 2_000;

/** The batch size for mints that advertise none. cdk accepts it. */
const UNADVERTISED_MAX_BATCH_SIZE = 100;

const SINGLE_READ_CONCURRENCY = 4;

/** If the rate limit delays the next batch for longer, quotes are read singly. Outages cause shorter delays. */
const LONG_COOLDOWN_MS = 10_000;

/** Batches are disabled for this time. Then the mint may have been upgraded, or its proxy repaired. */
const BATCH_RETRY_DELAY_MS = 15 * 60_000;

/** After this many failed batches in a row, the most urgent quotes are also read singly. */
const BATCH_FAILURES_BEFORE_SINGLE_READS = 3;

/** After this many failed batches in a row, batches are disabled if single reads work. */
const BATCH_FAILURES_BEFORE_DISABLING = 12;

/** Single reads that find a quote for which the mint had rejected a batch. After this many, batches are disabled. */
const FALSE_REJECTIONS_BEFORE_DISABLING = 3;

/** Failure reasons that a smaller batch may avoid. */
const SIZE_RELATED_FAILURES: ReadonlySet<string> = new Set(['timed out', 'response too large']);

export interface QuotePollerDeps {
  mintUrl: string;
  queue: PollQueue;
  client: Pick<MintClient, 'readQuote' | 'checkQuotes'>;
  limiter: Pick<MintRateLimiter, 'getWaitMs' | 'hasLearnedLimit'>;
  /** Returns the batch size that the mint advertises (NUT-29); null if it advertises none. */
  getMaxBatchSize: () => Promise<number | null>;
  limits: MintLimits;
  minPollIntervalMs: number;
  /** Random in production, so that a process does not poll all its mints at the same moment after a start. */
  firstPollDelayMs?: number;
  clock: Clock;
  monotonicMs: () => number;
}

/** Polls the due quotes of one mint, in batches (NUT-29) or one by one (NUT-23). */
export class QuotePoller {
  readonly #deps: QuotePollerDeps;
  readonly #bisector = new BatchBisector();
  /** Whether the next batch contains suspects of the bisector. Suspects and other quotes take turns. */
  #isSuspectsTurn = false;
  #maxBatchSize = Number.POSITIVE_INFINITY;
  #consecutiveBatchFailures = 0;
  #falseRejections = 0;
  #batchesDisabledUntilMs = Number.NEGATIVE_INFINITY;
  #nextPollAtMs: number;
  #contact: MintContact = { answeredAtMs: null, failingSinceMs: null, failure: null };
  #consecutiveFailedPolls = 0;

  constructor(deps: QuotePollerDeps) {
    this.#deps = deps;
    this.#nextPollAtMs = deps.monotonicMs() + (deps.firstPollDelayMs ?? 0);
  }

  /** When the mint last answered, and whether the last request failed. A new object after each request. */
  get contact(): MintContact {
    return this.#contact;
  }

  get isMintUnresponsive(): boolean {
    return this.#contact.failure !== null;
  }

  /** Returns the milliseconds until the mint may be polled again; 0 if it may be polled now. */
  getWaitMs(): number {
    const { limiter, mintUrl, monotonicMs } = this.#deps;
    const routeWaitMs = limiter.getWaitMs(mintUrl, this.#shouldBatch() ? 'check' : 'read');
    return Math.max(0, this.#nextPollAtMs - monotonicMs(), routeWaitMs);
  }

  /** Whether {@link poll} would send a request. */
  hasDue(): boolean {
    return this.#bisector.size > 0 || this.#deps.queue.hasDue();
  }

  /** Polls the due quotes. Returns the observations to record; null if no quote was due. */
  async poll(): Promise<SourcedObservation[] | null> {
    const { queue, limiter, mintUrl, minPollIntervalMs, monotonicMs } = this.#deps;
    const shouldBatch = this.#shouldBatch();
    if (!shouldBatch) {
      // Suspects are only sent in batches.
      queue.putBack(this.#findQuotes(this.#bisector.clear()));
    }
    if (!this.hasDue()) {
      return null;
    }
    const sentAtMs = monotonicMs();
    const isSlow = limiter.hasLearnedLimit(mintUrl, shouldBatch ? 'check' : 'read') || this.#isDown;
    this.#nextPollAtMs = sentAtMs + minPollIntervalMs * (isSlow ? SLOW_POLL_FACTOR : 1);
    const observations = shouldBatch
      ? await this.#pollBatchAndSingles()
      : await this.#readAnySingly();
    this.#consecutiveFailedPolls = this.isMintUnresponsive ? this.#consecutiveFailedPolls + 1 : 0;
    if (this.hasDue() && !this.#isDown) {
      this.#nextPollAtMs = sentAtMs + Math.min(BACKLOG_POLL_INTERVAL_MS, minPollIntervalMs);
    }
    return queue.selectToRecord(observations, sentAtMs);
  }

  get #isDown(): boolean {
    return this.#consecutiveFailedPolls >= FAILED_POLLS_BEFORE_OUTAGE;
  }

  async #pollBatchAndSingles(): Promise<QuoteObservation[]> {
    const observations = await this.#pollBatch();
    const singles = this.#deps.queue.takeForSingleReads(this.#maxReadsWithBatch);
    return [...observations, ...(await this.#readSingly(singles))];
  }

  async #readAnySingly(): Promise<QuoteObservation[]> {
    const { queue, limits } = this.#deps;
    return await this.#readSingly(queue.takeForAnyReads(limits.maxRequestsPerPoll, LOOK_AHEAD_MS));
  }

  /** How many single reads a poll may send besides a batch. */
  get #maxReadsWithBatch(): number {
    return Math.min(SINGLE_READ_CONCURRENCY, this.#deps.limits.maxRequestsPerPoll - 1);
  }

  /** Sends one batch: due quotes, or a group of suspects. */
  async #pollBatch(): Promise<QuoteObservation[]> {
    const { queue, limits, getMaxBatchSize } = this.#deps;
    const mintMaxSize = (await getMaxBatchSize()) ?? UNADVERTISED_MAX_BATCH_SIZE;
    const maxSize = Math.min(this.#maxBatchSize, mintMaxSize, limits.maxPollBatchSize);
    const isSuspectsTurn = this.#isSuspectsTurn || this.#bisector.size > MAX_SUSPECTS;
    let quotes = isSuspectsTurn ? this.#takeSuspects() : [];
    this.#isSuspectsTurn = quotes.length === 0;
    if (quotes.length === 0) {
      quotes = queue.takeForBatch(maxSize, LOOK_AHEAD_MS);
    }
    if (quotes.length === 0) {
      quotes = this.#takeSuspects();
      this.#isSuspectsTurn = false;
    }
    try {
      const batch = quotes.map(({ quoteId }) => quoteId);
      return batch.length === 0 ? [] : await this.#sendBatch(batch, maxSize);
    } finally {
      queue.putBack(quotes.filter(({ quoteId }) => !this.#bisector.has(quoteId)));
    }
  }

  #takeSuspects(): PolledQuote[] {
    return this.#findQuotes(this.#bisector.takeNextGroup());
  }

  #findQuotes(quoteIds: readonly string[]): PolledQuote[] {
    return quoteIds.flatMap((quoteId) => this.#deps.queue.get(quoteId) ?? []);
  }

  async #sendBatch(batch: readonly string[], maxSize: number): Promise<QuoteObservation[]> {
    const { mintUrl, client, monotonicMs } = this.#deps;
    const sentAtMs = monotonicMs();
    const result = await client.checkQuotes(mintUrl, batch);
    this.#recordContact(result);
    switch (result.outcome) {
      case 'found':
        this.#maxBatchSize = batch.length >= maxSize ? maxSize * 2 : this.#maxBatchSize;
        this.#handleBatchResult(batch, result.observations, sentAtMs);
        return result.observations;
      case 'rejected':
        this.#handleBatchRejection(batch);
        return [];
      case 'unsupported':
        this.#disableBatches();
        return [];
      case 'unavailable':
        return await this.#handleBatchFailure(batch, maxSize, result.reason);
      case 'rate_limited':
        return [];
    }
  }

  /** Makes the next poll read the quotes singly that the response omits. */
  #handleBatchResult(
    batch: readonly string[],
    observations: readonly QuoteObservation[],
    sentAtMs: number,
  ): void {
    this.#consecutiveBatchFailures = 0;
    this.#falseRejections = 0;
    const reportedIds = new Set(observations.map(({ quoteId }) => quoteId));
    for (const quoteId of batch) {
      const isReported = reportedIds.has(quoteId);
      this.#deps.queue.markPolled(quoteId, sentAtMs, isReported ? undefined : 'untilFound');
    }
  }

  /** Bisects the batch, because most likely the mint does not know one of its ids (NUT-29). */
  #handleBatchRejection(batch: readonly string[]): void {
    const rejectedId = this.#bisector.splitRejected(batch);
    if (rejectedId !== null) {
      this.#deps.queue.setSingleReadMode(rejectedId, 'always');
    }
  }

  /**
   * Makes the next batch smaller, because the mint may be too slow for a large batch, or may fail for one of the
   * quotes. If batches keep failing while single reads work, disables batches.
   */
  async #handleBatchFailure(
    batch: readonly string[],
    maxSize: number,
    reason: string,
  ): Promise<QuoteObservation[]> {
    this.#consecutiveBatchFailures += 1;
    const isRepeatedFailure = this.#consecutiveBatchFailures >= BATCH_FAILURES_BEFORE_SINGLE_READS;
    if (isRepeatedFailure || SIZE_RELATED_FAILURES.has(reason)) {
      this.#maxBatchSize = Math.max(1, Math.floor(maxSize / 2));
    }
    if (!isRepeatedFailure) {
      return [];
    }
    const firstIds = batch.slice(0, this.#maxReadsWithBatch);
    const observations = await this.#readSingly(this.#findQuotes(firstIds));
    if (
      this.#consecutiveBatchFailures >= BATCH_FAILURES_BEFORE_DISABLING &&
      observations.length > 0
    ) {
      this.#disableBatches();
    }
    return observations;
  }

  /** Reads each quote in a request of its own (NUT-23), until a read fails or the rate limit is reached. */
  async #readSingly(quotes: readonly PolledQuote[]): Promise<QuoteObservation[]> {
    const observations: QuoteObservation[] = [];
    const remaining = quotes.values();
    const readRemaining = async () => {
      for (const quote of remaining) {
        const observation = await this.#readOne(quote);
        if (observation === null) {
          return;
        }
        observations.push(observation);
      }
    };
    try {
      await Promise.all(Array.from({ length: SINGLE_READ_CONCURRENCY }, readRemaining));
    } finally {
      this.#deps.queue.putBack(quotes);
    }
    return observations;
  }

  /** @returns null if the read failed or the rate limit is reached */
  async #readOne(quote: PolledQuote): Promise<QuoteObservation | null> {
    const { mintUrl, queue, client, monotonicMs } = this.#deps;
    const { quoteId } = quote;
    const singleReadMode = queue.getSingleReadMode(quoteId);
    const sentAtMs = monotonicMs();
    const result = await client.readQuote(mintUrl, quoteId);
    this.#recordContact(result);
    switch (result.outcome) {
      case 'found':
        queue.markPolled(quoteId, sentAtMs, singleReadMode === 'always' ? 'always' : undefined);
        this.#falseRejections += singleReadMode === 'always' ? 1 : 0;
        if (this.#falseRejections >= FALSE_REJECTIONS_BEFORE_DISABLING) {
          this.#disableBatches();
        }
        return result.observation;
      case 'not_found':
        // The quote counts as unpaid, because the mint may know it again after it restores a backup.
        queue.markPolled(quoteId, sentAtMs, singleReadMode && 'untilFound');
        return { quoteId, state: 'UNPAID' };
      case 'unavailable':
        queue.markReadFailed(quote);
        return null;
      case 'rate_limited':
        return null;
    }
  }

  #recordContact(result: ReadQuoteResult | CheckQuotesResult): void {
    const nowMs = this.#deps.clock();
    if (result.outcome === 'unavailable') {
      const failingSinceMs = this.#contact.failingSinceMs ?? nowMs;
      this.#contact = { ...this.#contact, failingSinceMs, failure: result.reason };
    } else if (result.outcome !== 'rate_limited') {
      this.#contact = { answeredAtMs: nowMs, failingSinceMs: null, failure: null };
    }
  }

  #disableBatches(): void {
    this.#batchesDisabledUntilMs = this.#deps.monotonicMs() + BATCH_RETRY_DELAY_MS;
    this.#consecutiveBatchFailures = 0;
    this.#falseRejections = 0;
    this.#deps.queue.clearSingleReadModes();
    this.#deps.queue.putBack(this.#findQuotes(this.#bisector.clear()));
  }

  #shouldBatch(): boolean {
    const { limiter, mintUrl, monotonicMs } = this.#deps;
    const isCoolingDown = limiter.getWaitMs(mintUrl, 'check') > LONG_COOLDOWN_MS;
    return monotonicMs() >= this.#batchesDisabledUntilMs && !isCoolingDown;
  }
}
