import type { Clock } from '../clock.ts';
import { retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { Mints } from '../mints/create-mints.ts';
import { MintSubscription } from '../mints/mint-subscription.ts';
import type { QuoteObservation } from '../mints/quote-responses.ts';
import type {
  ObservationRecorder,
  RecordedQuote,
  SourcedObservation,
} from '../quotes/observation-recorder.ts';
import type { QuoteAnnouncement } from '../quotes/quote-notifications.ts';
import type { WatchedQuote } from '../quotes/watched-quote-store.ts';
import type { Store } from '../store.ts';
import { PollQueue } from './poll-queue.ts';
import { QuotePoller } from './quote-poller.ts';

/** Rows per query. */
const PAGE_SIZE = 5_000;

/** How often {@link MintWatcher.tick} is called; shorter waits have their own timer. */
const TICK_INTERVAL_MS = 1_000;

/** Observations per transaction, whose row locks delay other payments to its recipients. */
const MAX_RECORD_BATCH_SIZE = 100;

export interface MintWatcherDeps {
  /** Normalised. */
  mintUrl: string;
  mints: Mints;
  quoteStore: Pick<Store['watchedQuotes'], 'listWatchedByMint'>;
  observationRecorder: Pick<ObservationRecorder, 'record'>;
  /** Called with the quotes whose state changed, after the commit. */
  onQuotesChanged: (changed: readonly RecordedQuote[]) => void;
  /** The shortest time between two polls. */
  minPollIntervalMs: number;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/**
 * Watches the quotes of one mint. A subscription (NUT-17) gives speed; polling gives certainty and
 * never stops. Observations from both are recorded in batches, one batch at a time.
 */
export class MintWatcher {
  readonly #deps: MintWatcherDeps;
  readonly #queue: PollQueue;
  readonly #poller: QuotePoller;
  #subscription: MintSubscription | null = null;
  #isLoaded = false;
  #loading: Promise<void> | null = null;
  #polling: Promise<void> | null = null;
  #pollTimer: NodeJS.Timeout | undefined;
  /** Observations to record, the latest of each quote. */
  readonly #pending = new Map<string, SourcedObservation>();
  #recording: Promise<void> | null = null;
  #isFailing = false;
  #isStopping = false;

  constructor(deps: MintWatcherDeps) {
    this.#deps = deps;
    const { mints, mintUrl, minPollIntervalMs } = deps;
    this.#queue = new PollQueue({
      ...deps,
      isCovered: (quoteId) => this.#subscription?.isCovered(quoteId) ?? false,
    });
    this.#poller = new QuotePoller({
      ...deps,
      queue: this.#queue,
      client: mints.pollClient,
      limiter: mints.limiter,
      getMaxBatchSize: async () =>
        (await mints.infoCache.get(mintUrl))?.batchCheck?.maxBatchSize ?? null,
      firstPollDelayMs: Math.random() * minPollIntervalMs,
    });
  }

  get isMintUnresponsive(): boolean {
    return this.#poller.isMintUnresponsive;
  }

  get isPolling(): boolean {
    return this.#polling !== null;
  }

  getMaxOverdueMs(): number {
    return this.#queue.getMaxOverdueMs();
  }

  watchNew(quote: QuoteAnnouncement): void {
    this.#queue.add([{ ...quote, state: 'UNPAID', paidAtMs: null }], true);
    this.#subscription?.subscribe([quote.quoteId]);
  }

  watchExisting(quotes: readonly WatchedQuote[]): void {
    this.#queue.add(quotes, false);
    this.#subscription?.subscribeOlder(quotes.map(({ quoteId }) => quoteId));
  }

  /** Reads all quotes again at the next tick: a failover may lose the latest commits. */
  reload(): void {
    this.#isLoaded = false;
  }

  /**
   * Starts what is due, without waiting for it. Called every second.
   *
   * @param canPoll false while too many unresponsive mints are being polled
   */
  tick(canPoll: boolean): void {
    if (!this.#isLoaded) {
      this.#loading ??= this.#loadWatched();
    }
    void this.#openSubscription();
    this.#startRecording();
    if (canPoll) {
      this.#startPoll();
    }
  }

  /** Closes the subscription; resolves after the last attempt to record. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#pollTimer);
    await this.#subscription?.close();
    await Promise.all([this.#polling, this.#loading]);
    this.#startRecording();
    await this.#recording;
  }

  async #loadWatched(): Promise<void> {
    const { mintUrl, quoteStore } = this.#deps;
    // Set before the read, so that a reload requested meanwhile is not lost.
    this.#isLoaded = true;
    try {
      let afterId = 0;
      let rows: WatchedQuote[];
      do {
        rows = await quoteStore.listWatchedByMint(mintUrl, afterId, PAGE_SIZE);
        this.#queue.add(rows, false);
        afterId = rows.at(-1)?.id ?? afterId;
      } while (rows.length === PAGE_SIZE);
      this.#subscription?.subscribeOlder(this.#queue.listQuoteIds());
    } catch (error) {
      this.#isLoaded = false;
      this.#logFailure(error);
    }
    this.#loading = null;
  }

  /** Opens the subscription as soon as the mint is known to offer one. */
  async #openSubscription(): Promise<void> {
    const { mintUrl, mints, monotonicMs, log } = this.#deps;
    if (this.#subscription !== null) {
      return;
    }
    const info = await mints.infoCache.get(mintUrl).catch(() => null);
    if (info?.supportsSubscriptions === true && this.#subscription === null && !this.#isStopping) {
      this.#subscription = new MintSubscription({
        mintUrl,
        connect: mints.connectSocket,
        limiter: mints.limiter,
        connectionSlots: mints.socketSlots,
        anomalies: mints.anomalies,
        onObservation: (observation) => this.#handleSocketObservation(observation),
        monotonicMs,
        log,
      });
      this.#subscription.subscribe(this.#queue.listQuoteIds());
    }
  }

  #startPoll(): void {
    if (this.#polling !== null || this.#isStopping || this.#poller.getWaitMs() > 0) {
      return;
    }
    clearTimeout(this.#pollTimer);
    this.#polling = this.#poll();
  }

  async #poll(): Promise<void> {
    try {
      const observations = await this.#poller.poll();
      const waitMs = this.#poller.getWaitMs();
      this.#enqueueObservations(observations ?? []);
      // Unresponsive mints take turns, so their next poll is left to the next tick.
      const isNextPollSoon = waitMs < TICK_INTERVAL_MS && !this.#poller.isMintUnresponsive;
      if (observations !== null && isNextPollSoon && !this.#isStopping) {
        // One millisecond late, because a poll that comes too early is skipped until the next tick.
        this.#pollTimer = setTimeout(() => this.#startPoll(), Math.ceil(waitMs) + 1).unref();
      }
    } catch (error) {
      this.#logFailure(error);
    }
    this.#polling = null;
  }

  /** Ignores UNPAID: a subscription's first report may be stale. */
  #handleSocketObservation(observation: QuoteObservation): void {
    if (observation.state !== 'UNPAID' && this.#queue.isStateChange(observation)) {
      this.#enqueueObservations([{ ...observation, source: 'socket' }]);
    }
  }

  #enqueueObservations(observations: readonly SourcedObservation[]): void {
    for (const observation of observations) {
      // A late, stale observation must not replace a newer one.
      const pendingState = this.#pending.get(observation.quoteId)?.state;
      const isStale = pendingState !== undefined && observation.state === 'UNPAID';
      if (!isStale && pendingState !== 'ISSUED') {
        this.#pending.set(observation.quoteId, observation);
      }
    }
    this.#startRecording();
  }

  #startRecording(): void {
    if (this.#recording === null && this.#pending.size > 0) {
      this.#recording = this.#recordPending();
    }
  }

  /** Records batch after batch. If the database fails, the next tick retries. */
  async #recordPending(): Promise<void> {
    const { observationRecorder, mintUrl } = this.#deps;
    while (this.#pending.size > 0) {
      const batch = [...this.#pending.values()].slice(0, MAX_RECORD_BATCH_SIZE);
      for (const { quoteId } of batch) {
        this.#pending.delete(quoteId);
      }
      try {
        this.#applyRecorded(batch, await observationRecorder.record(mintUrl, batch));
        this.#isFailing = false;
      } catch (error) {
        for (const observation of batch.filter(({ quoteId }) => !this.#pending.has(quoteId))) {
          this.#pending.set(observation.quoteId, observation);
        }
        this.#logFailure(error);
        break;
      }
    }
    this.#recording = null;
  }

  #applyRecorded(batch: readonly SourcedObservation[], recorded: readonly RecordedQuote[]): void {
    const knownIds = new Set(recorded.map(({ quoteId }) => quoteId));
    for (const { quoteId } of batch.filter((each) => !knownIds.has(each.quoteId))) {
      this.#queue.remove(quoteId);
    }
    this.#queue.applyRecorded(recorded);
    const finished = recorded.filter(({ isWatched }) => !isWatched);
    this.#subscription?.ignore(finished.map(({ quoteId }) => quoteId));
    const changed = recorded.filter(({ hasStateChanged }) => hasStateChanged);
    const polledChanges = changed
      .filter(({ source, state }) => source === 'poll' && state !== 'EXPIRED')
      .map(({ quoteId }) => quoteId);
    this.#subscription?.recordPolledChanges(polledChanges);
    this.#deps.onQuotesChanged(changed);
  }

  #logFailure(error: unknown): void {
    const level = this.#isFailing ? 'debug' : retryLogLevel(error);
    this.#isFailing = true;
    this.#deps.log[level](
      { event: 'mint_watch_failed', err: error, mintUrl: this.#deps.mintUrl },
      'could not read or record quotes of a mint; retrying',
    );
  }
}
