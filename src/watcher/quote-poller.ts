import type { Clock } from '../clock.ts';
import type { MintLimits } from '../mints/limits.ts';
import {
  type CheckQuotesResult,
  describeFailure,
  type MintClient,
  type ReadQuoteResult,
} from '../mints/mint-client.ts';
import type { MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { MintHealth } from '../mints/mint-store.ts';
import {
  BACKLOG_POLL_INTERVAL_MS,
  BATCH_RETRY_DELAY_MS,
  SINGLE_READ_CONCURRENCY,
} from './limits.ts';
import type { WatchedQuote } from './watched-quote.ts';
import type { WatchedQuotes } from './watched-quotes.ts';

/** Polls the due quotes of one mint, in batches (NUT-29) or one by one (NUT-23). */
export class QuotePoller {
  readonly #context;
  #nextPollAtMs: number;
  #batchesPausedUntilMs = Number.NEGATIVE_INFINITY;
  #readsPausedUntilMs = Number.NEGATIVE_INFINITY;
  /** Batches in a row for which the mint failed, although it read a single quote. */
  #failedBatches = 0;
  #health: MintHealth = { answeredAtMs: null, failingSinceMs: null, failure: null };

  constructor(context: {
    mintUrl: string;
    quotes: WatchedQuotes;
    client: Pick<MintClient, 'readQuote' | 'checkQuotes'>;
    limiter: Pick<MintRateLimiter, 'hasRefusedLately'>;
    /** Returns the batch size that the mint advertises (NUT-29). */
    getMaxBatchSize: () => Promise<number | null>;
    limits: Pick<MintLimits, 'maxPollBatchSize' | 'maxRequestsPerPoll'>;
    minPollIntervalMs: number;
    /** Random, so that a process does not poll all its mints at the same moment after a start. */
    firstPollDelayMs: number;
    clock: Clock;
    monotonicMs: () => number;
  }) {
    this.#context = context;
    this.#nextPollAtMs = context.monotonicMs() + context.firstPollDelayMs;
  }

  get health(): MintHealth {
    return this.#health;
  }

  getWaitMs(): number {
    return Math.max(0, this.#nextPollAtMs - this.#context.monotonicMs());
  }

  /** Polls due quotes in a batch, and reads those alone that batches cannot contain. */
  async poll(): Promise<void> {
    const { quotes, limiter, limits, mintUrl, minPollIntervalMs, monotonicMs } = this.#context;
    const sentAtMs = monotonicMs();
    const canBatch = sentAtMs >= this.#batchesPausedUntilMs;
    const isSlow =
      this.#isFailing || limiter.hasRefusedLately(mintUrl, canBatch ? 'check' : 'read');
    // With four times the interval, 15 polls a minute: Nutshell allows 20 requests.
    const plannedPollAtMs = sentAtMs + minPollIntervalMs * (isSlow ? 4 : 1);
    this.#nextPollAtMs = plannedPollAtMs;
    if (canBatch) {
      const requestCount = await this.#pollBatch();
      const maxReads = Math.min(SINGLE_READ_CONCURRENCY, limits.maxRequestsPerPoll - requestCount);
      await this.#readEach(this.#canRead ? quotes.take('alone', maxReads) : []);
    } else {
      await this.#readEach(quotes.take('any', limits.maxRequestsPerPoll));
      this.#pauseUntil(Math.min(this.#readsPausedUntilMs, this.#batchesPausedUntilMs));
    }
    const isPaused = this.#nextPollAtMs > plannedPollAtMs || !this.#canRead;
    if (quotes.hasDue() && !this.#isFailing && !isPaused) {
      this.#nextPollAtMs = sentAtMs + Math.min(BACKLOG_POLL_INTERVAL_MS, minPollIntervalMs);
    }
  }

  get #isFailing(): boolean {
    return this.#health.failure !== null;
  }

  get #canRead(): boolean {
    return this.#context.monotonicMs() >= this.#readsPausedUntilMs;
  }

  /** Returns the number of requests: after a failed batch, one quote is read alone. */
  async #pollBatch(): Promise<number> {
    const { mintUrl, quotes, client, limits, getMaxBatchSize, monotonicMs } = this.#context;
    // cdk accepts 100.
    const maxSize = Math.min((await getMaxBatchSize()) ?? 100, limits.maxPollBatchSize);
    const batch = quotes.take('batch', maxSize);
    const [first] = batch;
    if (first === undefined) {
      return 0;
    }
    try {
      const quoteIds = batch.map(({ quoteId }) => quoteId);
      const sentAtMs = monotonicMs();
      const result = await client.checkQuotes(mintUrl, quoteIds);
      this.#recordHealth(result);
      switch (result.outcome) {
        case 'found': {
          this.#failedBatches = 0;
          const found = new Map(result.observations.map((item) => [item.quoteId, item]));
          for (const quote of batch) {
            const observation = found.get(quote.quoteId);
            if (observation === undefined) {
              quotes.readAlone(quote);
            } else {
              quotes.handlePolled(quote, observation, sentAtMs);
            }
          }
          return 1;
        }
        case 'unsupported':
          this.#batchesPausedUntilMs = monotonicMs() + BATCH_RETRY_DELAY_MS;
          return 1;
        case 'rate_limited': {
          const pauseMs = result.retryAfterMs ?? 0;
          const pausedUntilMs = monotonicMs() + pauseMs;
          if (pauseMs > 10_000) {
            // Mints limit each route by itself, so quotes can be read alone meanwhile.
            this.#batchesPausedUntilMs = pausedUntilMs;
          } else {
            this.#pauseUntil(pausedUntilMs);
          }
          return 1;
        }
        case 'rejected':
          // The mint may not know one of the ids, for which it rejects the whole batch (NUT-29).
          await this.#readOne(first);
          quotes.halveBatch(batch);
          return 2;
        case 'unavailable':
          // The mint may be too slow for so many quotes, or may be down. If it reads one quote, it is not down.
          if (await this.#readOne(first)) {
            quotes.halveBatch(batch);
            // If batches keep failing, quotes are read alone, because the route of batches pauses longer after each failure.
            this.#failedBatches += 1;
            if (this.#failedBatches >= 5) {
              this.#batchesPausedUntilMs = monotonicMs() + BATCH_RETRY_DELAY_MS;
            }
          }
          return 2;
      }
    } finally {
      quotes.putBack(batch);
    }
  }

  /** Reads each quote in a request of its own (NUT-23), until a read fails or the mint refuses it. */
  async #readEach(taken: readonly WatchedQuote[]): Promise<void> {
    // Several loops take their next quote from the same iterator.
    const remaining = taken.values();
    const readRemaining = async () => {
      for (const quote of remaining) {
        if (!(await this.#readOne(quote))) {
          return;
        }
      }
    };
    try {
      await Promise.all(Array.from({ length: SINGLE_READ_CONCURRENCY }, readRemaining));
    } finally {
      this.#context.quotes.putBack(taken);
    }
  }

  /** Returns false if the read failed or the mint refused it. */
  async #readOne(quote: WatchedQuote): Promise<boolean> {
    const { mintUrl, quotes, client, minPollIntervalMs, monotonicMs } = this.#context;
    const sentAtMs = monotonicMs();
    const result = await client.readQuote(mintUrl, quote.quoteId);
    this.#recordHealth(result);
    switch (result.outcome) {
      case 'found':
        quotes.handlePolled(quote, result.observation, sentAtMs);
        return true;
      case 'not_found':
        quotes.handlePolled(quote, null, sentAtMs);
        return true;
      case 'unavailable':
        quotes.retryLater(quote, minPollIntervalMs);
        return false;
      case 'rate_limited':
        this.#readsPausedUntilMs = monotonicMs() + (result.retryAfterMs ?? 0);
        return false;
    }
  }

  #pauseUntil(untilMs: number): void {
    this.#nextPollAtMs = Math.max(this.#nextPollAtMs, untilMs);
  }

  #recordHealth(result: ReadQuoteResult | CheckQuotesResult): void {
    const nowMs = this.#context.clock();
    if (result.outcome === 'unavailable') {
      const failingSinceMs = this.#health.failingSinceMs ?? nowMs;
      this.#health = { ...this.#health, failingSinceMs, failure: describeFailure(result) };
    } else if (result.outcome !== 'rate_limited') {
      this.#health = { answeredAtMs: nowMs, failingSinceMs: null, failure: null };
    }
  }
}
