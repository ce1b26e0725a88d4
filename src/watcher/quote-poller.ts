import type { MintClient } from '../mints/mint-client.ts';
import type { MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { QuoteObservation } from '../mints/quote-responses.ts';
import type { SourcedObservation } from '../quotes/observation-recorder.ts';
import { BatchBisector } from './batch-bisector.ts';
import type { PolledQuote, PollQueue } from './poll-queue.ts';

/** Between two batches. Nutshell allows 20 requests a minute; this makes 15. */
export const MIN_POLL_INTERVAL_MS = 4_000;

/** Between two batches while due quotes remain: at a mint with many quotes, or after a failure. */
const BACKLOG_POLL_INTERVAL_MS = 250;

/** After this many failed polls in a row, a mint is polled at the normal interval. */
const FAILED_POLLS_BEFORE_OUTAGE = 3;

/** A poll includes quotes due within this time: the next one may have to wait. */
const LOOK_AHEAD_MS = 2_000;

/** cdk accepts batches of this size without advertising them. */
const UNADVERTISED_MAX_BATCH_SIZE = 100;

const MAX_SINGLE_READS_PER_POLL = 16;
const SINGLE_READ_CONCURRENCY = 4;

/** If the rate limit pauses batches for longer, quotes are read singly. Outages pause for less. */
const LONG_COOLDOWN_MS = 10_000;

/** A mint without batches may offer them after an upgrade, or may have had a broken proxy. */
const BATCH_RETRY_DELAY_MS = 15 * 60_000;

/** After this many failed batches in a row, the most urgent quotes are also read singly. */
const BATCH_FAILURES_BEFORE_SINGLE_READS = 3;

/** After this many, batches are disabled if single reads work. */
const BATCH_FAILURES_BEFORE_DISABLING = 12;

/** If the mint knows this many ids for which it rejected batches, batches are disabled. */
const FALSE_REJECTIONS_BEFORE_DISABLING = 3;

/** Failures that a smaller batch may avoid. */
const SIZE_RELATED_FAILURES: ReadonlySet<string> = new Set(['timed out', 'response too large']);

export interface QuotePollerDeps {
  mintUrl: string;
  queue: PollQueue;
  client: Pick<MintClient, 'readQuote' | 'checkQuotes'>;
  limiter: Pick<MintRateLimiter, 'getWaitMs'>;
  /** Returns the largest batch that the mint advertises (NUT-29); null if it advertises none. */
  getMaxBatchSize: () => Promise<number | null>;
  /** Between two batches. */
  minPollIntervalMs: number;
  /** Random in production, so that many mints do not respond together after a start. */
  firstPollDelayMs?: number;
  monotonicMs: () => number;
}

/** Polls the due quotes of one mint, in batches (NUT-29) or one by one (NUT-23). */
export class QuotePoller {
  readonly #deps: QuotePollerDeps;
  readonly #bisector = new BatchBisector();
  /** The bisector's suspects take turns with the other quotes. */
  #isSuspectsTurn = false;
  #batchSize = Number.POSITIVE_INFINITY;
  #batchFailures = 0;
  #falseRejections = 0;
  #batchesDisabledUntilMs = Number.NEGATIVE_INFINITY;
  #nextPollAtMs: number;
  /** Whether the last request failed. */
  isMintUnresponsive = false;
  #consecutiveFailedPolls = 0;

  constructor(deps: QuotePollerDeps) {
    this.#deps = deps;
    this.#nextPollAtMs = deps.monotonicMs() + (deps.firstPollDelayMs ?? 0);
  }

  /** Returns the milliseconds until the mint may be polled again; 0 is now. */
  getWaitMs(): number {
    const { limiter, mintUrl, monotonicMs } = this.#deps;
    const routeWaitMs = limiter.getWaitMs(mintUrl, this.#shouldBatch() ? 'check' : 'read');
    return Math.max(0, this.#nextPollAtMs - monotonicMs(), routeWaitMs);
  }

  /** Polls the due quotes. Returns the observations to record; null if no quote was due. */
  async poll(): Promise<SourcedObservation[] | null> {
    const { queue, minPollIntervalMs, monotonicMs } = this.#deps;
    const shouldBatch = this.#shouldBatch();
    if (!shouldBatch) {
      // Suspects would wait for batches.
      this.#bisector.clear();
    }
    const suspects = this.#bisector.getSuspects();
    const dueSoon = queue
      .listDue(LOOK_AHEAD_MS)
      .filter(({ quote }) => !suspects.has(quote.quoteId));
    if (!dueSoon.some(({ urgency }) => urgency > 0) && suspects.size === 0) {
      return null;
    }
    const due = dueSoon.map(({ quote }) => quote);
    const sentAtMs = monotonicMs();
    this.#nextPollAtMs = sentAtMs + minPollIntervalMs;
    const observations = shouldBatch
      ? await this.#pollBatchAndSingles(due)
      : await this.#readSingly(due.slice(0, MAX_SINGLE_READS_PER_POLL));
    const hasBacklog = due.length > observations.length || this.#bisector.getSuspects().size > 0;
    if (this.isMintUnresponsive) {
      this.#consecutiveFailedPolls += 1;
    } else {
      if (this.#consecutiveFailedPolls >= FAILED_POLLS_BEFORE_OUTAGE) {
        // The outage, not the quotes, made the reads fail.
        queue.clearReadFailures();
      }
      this.#consecutiveFailedPolls = 0;
    }
    if (hasBacklog && this.#consecutiveFailedPolls < FAILED_POLLS_BEFORE_OUTAGE) {
      this.#nextPollAtMs = sentAtMs + Math.min(BACKLOG_POLL_INTERVAL_MS, minPollIntervalMs);
    }
    return queue.selectNews(observations, sentAtMs);
  }

  async #pollBatchAndSingles(due: readonly PolledQuote[]): Promise<QuoteObservation[]> {
    const batchable = due.filter(({ singleReadMode }) => singleReadMode === 'no');
    const singles = due.filter(({ singleReadMode }) => singleReadMode !== 'no');
    return [
      ...(await this.#pollBatch(batchable.map(({ quoteId }) => quoteId))),
      ...(await this.#readSingly(singles.slice(0, SINGLE_READ_CONCURRENCY))),
    ];
  }

  /** Sends one batch of the most urgent quotes or of suspects. */
  async #pollBatch(dueIds: readonly string[]): Promise<QuoteObservation[]> {
    const { mintUrl, queue, client, getMaxBatchSize } = this.#deps;
    const maxSize = (await getMaxBatchSize()) ?? UNADVERTISED_MAX_BATCH_SIZE;
    const size = Math.min(this.#batchSize, maxSize);
    const suspects =
      this.#isSuspectsTurn || dueIds.length === 0 ? this.#bisector.takeNextGroup() : null;
    this.#isSuspectsTurn = suspects === null;
    const batch = (suspects ?? dueIds.slice(0, size)).filter((id) => queue.get(id) !== undefined);
    if (batch.length === 0) {
      return [];
    }
    const result = await client.checkQuotes(mintUrl, batch);
    if (result.outcome !== 'rate_limited') {
      this.isMintUnresponsive = result.outcome === 'unavailable';
    }
    switch (result.outcome) {
      case 'found':
        this.#batchSize = batch.length >= size ? size * 2 : this.#batchSize;
        this.#handleBatchResult(batch, result.observations);
        return result.observations;
      case 'rejected':
        this.#handleBatchRejection(batch);
        return [];
      case 'unsupported':
        this.#disableBatches();
        return [];
      case 'unavailable':
        // Suspects rejoin the other quotes, because the failure says nothing about them.
        return await this.#handleBatchFailure(batch, size, result.reason);
      case 'rate_limited':
        if (suspects !== null) {
          this.#bisector.putBack(suspects);
        }
        return [];
    }
  }

  /** A quote that the response omits is read singly next time. */
  #handleBatchResult(batch: readonly string[], observations: readonly QuoteObservation[]): void {
    this.#batchFailures = 0;
    this.#falseRejections = 0;
    const reportedIds = new Set(observations.map(({ quoteId }) => quoteId));
    for (const quoteId of batch) {
      this.#deps.queue.markPolled(quoteId, reportedIds.has(quoteId) ? 'no' : 'untilFound');
    }
  }

  /** Most likely, the mint does not know one of the ids (NUT-29). */
  #handleBatchRejection(batch: readonly string[]): void {
    const badId = this.#bisector.splitRejected(batch);
    const quote = badId === null ? undefined : this.#deps.queue.get(badId);
    if (quote !== undefined) {
      quote.singleReadMode = 'always';
    }
  }

  /**
   * Makes the next batch smaller: the mint may be too slow for a large one, or fail for one of its
   * quotes. If batches keep failing while single reads work, the mint's batch route is broken.
   */
  async #handleBatchFailure(
    batch: readonly string[],
    size: number,
    reason: string,
  ): Promise<QuoteObservation[]> {
    this.#batchFailures += 1;
    const isRepeated = this.#batchFailures >= BATCH_FAILURES_BEFORE_SINGLE_READS;
    if (isRepeated || SIZE_RELATED_FAILURES.has(reason)) {
      this.#batchSize = Math.max(1, Math.floor(size / 2));
    }
    if (!isRepeated) {
      return [];
    }
    const first = batch.slice(0, SINGLE_READ_CONCURRENCY);
    const observations = await this.#readSingly(
      first.flatMap((id) => this.#deps.queue.get(id) ?? []),
    );
    if (this.#batchFailures >= BATCH_FAILURES_BEFORE_DISABLING && observations.length > 0) {
      this.#disableBatches();
    }
    return observations;
  }

  /** Reads quotes one by one (NUT-23), until the mint fails or limits the rate. */
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
    await Promise.all(Array.from({ length: SINGLE_READ_CONCURRENCY }, readRemaining));
    return observations;
  }

  /** Returns null if the mint did not respond. */
  async #readOne(quote: PolledQuote): Promise<QuoteObservation | null> {
    const { mintUrl, queue, client, monotonicMs } = this.#deps;
    const { quoteId, singleReadMode } = quote;
    const result = await client.readQuote(mintUrl, quoteId);
    switch (result.outcome) {
      case 'found':
        this.isMintUnresponsive = false;
        queue.markPolled(quoteId, singleReadMode === 'always' ? 'always' : 'no');
        this.#falseRejections += singleReadMode === 'always' ? 1 : 0;
        if (this.#falseRejections >= FALSE_REJECTIONS_BEFORE_DISABLING) {
          this.#disableBatches();
        }
        return result.observation;
      case 'not_found':
        this.isMintUnresponsive = false;
        // Counts as unpaid: the mint may know the quote later, for example after a restore.
        queue.markPolled(quoteId, singleReadMode === 'no' ? 'no' : 'untilFound');
        return { quoteId, state: 'UNPAID' };
      case 'unavailable':
        this.isMintUnresponsive = true;
        quote.lastReadFailedAtMs = monotonicMs();
        return null;
      case 'rate_limited':
        return null;
    }
  }

  #disableBatches(): void {
    this.#batchesDisabledUntilMs = this.#deps.monotonicMs() + BATCH_RETRY_DELAY_MS;
    this.#batchFailures = 0;
    this.#falseRejections = 0;
    this.#bisector.clear();
    this.#deps.queue.clearSingleReadModes();
  }

  #shouldBatch(): boolean {
    const { limiter, mintUrl, monotonicMs } = this.#deps;
    const isCoolingDown = limiter.getWaitMs(mintUrl, 'check') > LONG_COOLDOWN_MS;
    return monotonicMs() >= this.#batchesDisabledUntilMs && !isCoolingDown;
  }
}
