import { retryLogLevel } from '../errors.ts';
import type { Log } from '../log.ts';
import type { MintInfoCache } from '../mints/mint-info-cache.ts';
import { MintSubscription, type MintSubscriptionParts } from '../mints/mint-subscription.ts';
import type { QuoteObservation } from '../mints/quote-answer.ts';
import type { WatchedQuote } from '../quotes/quote-watch-store.ts';
import type {
  NewObservation,
  RecordedQuote,
  RecordObservations,
} from '../quotes/record-observations.ts';
import type { Store } from '../store.ts';
import { QuotePoller, type QuotePollerParts } from './quote-poller.ts';

/** Rows read at a time when a watch begins. */
const ROWS_AT_ONCE = 5_000;

/** How often {@link MintWatcher.tick} is called; shorter waits have a timer of their own. */
const TICK_MS = 1_000;

/** Observations recorded in one transaction: it keeps other payments to its recipients waiting. */
const MAX_RECORDED_AT_ONCE = 100;

export interface MintWatcherParts
  extends Omit<
    QuotePollerParts & MintSubscriptionParts,
    'maxBatchSize' | 'isCovered' | 'onObservation'
  > {
  quotes: Pick<Store['watch'], 'listWatched'>;
  infos: Pick<MintInfoCache, 'get'>;
  recordObservations: Pick<RecordObservations, 'record'>;
  /** Called with what changed, after it was recorded. */
  onNews: (news: readonly RecordedQuote[]) => void;
  log: Log;
}

/**
 * Watches the quotes of one mint. The subscription gives speed (NUT-17); polling gives certainty, and
 * never stops because a subscription exists. What both observe is recorded one batch after the other.
 */
export class MintWatcher {
  readonly #parts: MintWatcherParts;
  readonly #poller: QuotePoller;
  #subscription: MintSubscription | null = null;
  #isLoaded = false;
  #loading: Promise<void> | null = null;
  #polling: Promise<void> | null = null;
  #pollTimer: NodeJS.Timeout | undefined;
  /** Observations to record, the latest of each quote. */
  readonly #pending = new Map<string, NewObservation>();
  #recording: Promise<void> | null = null;
  /** Whether the last attempt failed: only the first failure in a row is logged as an error. */
  #isFailing = false;
  #isStopping = false;

  constructor(parts: MintWatcherParts) {
    this.#parts = parts;
    const { infos, mintUrl, pollGapMs } = parts;
    this.#poller = new QuotePoller({
      ...parts,
      maxBatchSize: async () => (await infos.get(mintUrl))?.batchCheck?.maxBatchSize ?? null,
      isCovered: (quoteId) => this.#subscription?.covers(quoteId) ?? false,
      firstPollDelayMs: Math.random() * pollGapMs,
    });
  }

  /** Whether the mint gave no usable answer the last time. */
  get isMintSilent(): boolean {
    return this.#poller.isMintSilent;
  }

  get isPolling(): boolean {
    return this.#polling !== null;
  }

  /** How long the most overdue quote has been due, in milliseconds; 0 if none is. */
  overdueMs(): number {
    return this.#poller.overdueMs();
  }

  notice(quotes: readonly WatchedQuote[]): void {
    this.#poller.add(quotes, true);
    this.#subscription?.watch(quotes.map(({ quoteId }) => quoteId));
  }

  found(quotes: readonly WatchedQuote[]): void {
    this.#poller.add(quotes, false);
    this.#subscription?.watchOlder(quotes.map(({ quoteId }) => quoteId));
  }

  /** Reads all watched quotes again with the next tick: after a failover, the latest commits may be gone. */
  reload(): void {
    this.#isLoaded = false;
  }

  /**
   * Does what is due: opens the subscription, polls, and records what could not be recorded before.
   * Called every second; never waits.
   *
   * @param mayPoll false while too many mints that do not answer are being polled
   */
  tick(mayPoll: boolean): void {
    if (!this.#isLoaded) {
      this.#load();
    }
    void this.#subscribe();
    this.#record();
    if (mayPoll) {
      this.#poll();
    }
  }

  /** Closes the subscription; resolves when everything observed is recorded, or cannot be. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#pollTimer);
    await this.#subscription?.close();
    await Promise.all([this.#polling, this.#loading]);
    this.#record();
    while (this.#recording !== null) {
      await this.#recording;
    }
  }

  /** Reads all watched quotes; again with the next tick if that fails. */
  #load(): void {
    this.#loading ??= this.#loadWatched()
      .catch((error: unknown) => {
        this.#isLoaded = false;
        this.#logFailure(error);
      })
      .finally(() => {
        this.#loading = null;
      });
  }

  async #loadWatched(): Promise<void> {
    const { mintUrl, quotes } = this.#parts;
    // Before the rows are read, so that a reload that is asked for meanwhile is not forgotten.
    this.#isLoaded = true;
    let afterId = 0;
    let rows: WatchedQuote[];
    do {
      rows = await quotes.listWatched(mintUrl, afterId, ROWS_AT_ONCE);
      this.#poller.add(rows, false);
      afterId = rows.at(-1)?.id ?? afterId;
    } while (rows.length === ROWS_AT_ONCE);
    this.#subscription?.watchOlder(this.#poller.quoteIds());
  }

  /** Opens the subscription as soon as the mint is known to offer one. */
  async #subscribe(): Promise<void> {
    const { mintUrl, infos } = this.#parts;
    if (this.#subscription !== null) {
      return;
    }
    const info = await Promise.resolve(infos.get(mintUrl)).catch(() => null);
    if (info?.subscriptions === true && this.#subscription === null && !this.#isStopping) {
      this.#subscription = new MintSubscription({
        ...this.#parts,
        onObservation: (observation) => this.#takeFromSocket(observation),
      });
      this.#subscription.watch(this.#poller.quoteIds());
    }
  }

  #poll(): void {
    if (this.#polling !== null || this.#isStopping || this.#poller.waitMs() > 0) {
      return;
    }
    clearTimeout(this.#pollTimer);
    this.#polling = this.#pollOnce()
      .catch((error: unknown) => this.#logFailure(error))
      .finally(() => {
        this.#polling = null;
      });
  }

  async #pollOnce(): Promise<void> {
    const observations = await this.#poller.poll();
    if (observations === null) {
      return;
    }
    this.#take(observations);
    const waitMs = this.#poller.waitMs();
    // Mints that do not answer take turns, so the next tick decides about them.
    if (waitMs < TICK_MS && !this.#poller.isMintSilent && !this.#isStopping) {
      // Not a moment too early, when there would be nothing to do until the next tick.
      this.#pollTimer = setTimeout(() => this.#poll(), Math.ceil(waitMs) + 1).unref();
    }
  }

  /** A subscription's first report may be stale, so UNPAID is never news. */
  #takeFromSocket(observation: QuoteObservation): void {
    if (observation.state !== 'UNPAID' && this.#poller.isNews(observation)) {
      this.#take([{ ...observation, source: 'socket' }]);
    }
  }

  #take(observations: readonly NewObservation[]): void {
    for (const observation of observations) {
      // An old answer that came late must not replace a newer one that waits to be recorded.
      const pending = this.#pending.get(observation.quoteId)?.state;
      const isOlder = pending !== undefined && observation.state === 'UNPAID';
      if (!isOlder && pending !== 'ISSUED') {
        this.#pending.set(observation.quoteId, observation);
      }
    }
    this.#record();
  }

  /** Records one batch after the other. If the database fails, the next tick tries again. */
  #record(): void {
    if (this.#recording !== null || this.#pending.size === 0) {
      return;
    }
    const batch = [...this.#pending.values()].slice(0, MAX_RECORDED_AT_ONCE);
    for (const { quoteId } of batch) {
      this.#pending.delete(quoteId);
    }
    this.#recording = this.#parts.recordObservations.record(this.#parts.mintUrl, batch).then(
      (recorded) => {
        this.#recording = null;
        this.#isFailing = false;
        this.#recorded(batch, recorded);
        this.#record();
      },
      (error: unknown) => {
        this.#recording = null;
        for (const observation of batch) {
          if (!this.#pending.has(observation.quoteId)) {
            this.#pending.set(observation.quoteId, observation);
          }
        }
        this.#logFailure(error);
      },
    );
  }

  #recorded(batch: readonly NewObservation[], recorded: readonly RecordedQuote[]): void {
    const held = new Set(recorded.map(({ quoteId }) => quoteId));
    for (const { quoteId } of batch) {
      if (!held.has(quoteId)) {
        this.#poller.forget(quoteId);
      }
    }
    this.#poller.update(recorded);
    const finished = recorded.filter(({ isWatched }) => !isWatched);
    this.#subscription?.unwatch(finished.map(({ quoteId }) => quoteId));
    const news = recorded.filter(({ isNews }) => isNews);
    const polled = news.filter(({ source, state }) => source === 'poll' && state !== 'EXPIRED');
    this.#subscription?.polledNews(polled.map(({ quoteId }) => quoteId));
    this.#parts.onNews(news);
  }

  #logFailure(error: unknown): void {
    const level = this.#isFailing ? 'debug' : retryLogLevel(error);
    this.#isFailing = true;
    this.#parts.log[level](
      { event: 'mint_watch_failed', err: error, mintUrl: this.#parts.mintUrl },
      'could not read or record quotes of a mint; retrying',
    );
  }
}
