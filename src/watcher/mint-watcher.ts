import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { DatabaseUnavailableError, retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { MintInfo } from '../mints/mint-info.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { MintContact } from '../mints/mint-store.ts';
import { MAX_PENDING_QUOTES, MintSubscription } from '../mints/mint-subscription.ts';
import type { Mints } from '../mints/mints-module.ts';
import type { QuoteObservation } from '../mints/quote-responses.ts';
import type { SiteSemaphore } from '../net/site-semaphore.ts';
import { OutageTracker } from '../outage-tracker.ts';
import type {
  ObservationRecorder,
  RecordedQuote,
  SourcedObservation,
} from '../quotes/observation-recorder.ts';
import type { QuoteAnnouncement } from '../quotes/process-notifications.ts';
import { listWatchedByMint, type WatchedQuote } from '../quotes/watched-quote-store.ts';
import { PollQueue } from './poll-queue.ts';
import { QuotePoller } from './quote-poller.ts';

/** Quotes read per query. Adding them to the queue takes about 2 ms. */
const PAGE_SIZE = 1_000;

/** How often {@link MintWatcher.tick} is called. If the next poll is due earlier, a timer starts the poll. */
const TICK_INTERVAL_MS = 1_000;

/**
 * Transactions at the same time for all mints that users chose. With SQLite, other transactions wait for all that
 * started before them, so hundreds of hostile mints could delay payments at the operator's mints by half a minute.
 */
const MAX_USER_MINT_RECORDINGS = 2;

/** If no slot becomes free in time, the next tick waits again. */
const MAX_SLOT_WAIT_MS = 60_000;

/** Creates the slots for transactions that record observations. The operator's mints have their own slots. */
export function createRecordingSlots(mintPolicy: MintPolicy): SiteSemaphore {
  return mintPolicy.createSlots({ max: MAX_USER_MINT_RECORDINGS, maxPerSite: 1 });
}

export interface MintWatcherDeps {
  /** Normalised. */
  mintUrl: string;
  mints: Mints;
  db: Db;
  observationRecorder: Pick<ObservationRecorder, 'record'>;
  /** All mints share these slots ({@link createRecordingSlots}). */
  recordingSlots: SiteSemaphore;
  /** Called with the quotes whose state changed, after the commit. */
  onQuotesChanged: (changed: readonly RecordedQuote[]) => void;
  minPollIntervalMs: number;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/**
 * Watches the quotes of one mint. A subscription (NUT-17) reports changes immediately. Polling continues beside it,
 * because a subscription may miss changes. Observations are recorded in batches, one batch at a time.
 */
export class MintWatcher {
  readonly #deps: MintWatcherDeps;
  /** Other mints share a limited number of polls ({@link PollTurns}). */
  readonly #isOperatorMint: boolean;
  readonly #queue: PollQueue;
  readonly #poller: QuotePoller;
  #subscription: MintSubscription | null = null;
  #hasRequestedInfo = false;
  #isLoaded = false;
  #loading: Promise<void> | null = null;
  #polling: Promise<void> | null = null;
  #pollTimer: NodeJS.Timeout | undefined;
  /** The observations that must be recorded, at most one per quote. */
  readonly #pendingObservations = new Map<string, SourcedObservation>();
  #recording: Promise<void> | null = null;
  readonly #outage: OutageTracker;
  #isStopping = false;

  constructor(deps: MintWatcherDeps) {
    this.#deps = deps;
    this.#outage = new OutageTracker(deps.monotonicMs);
    const { mints, mintUrl, minPollIntervalMs } = deps;
    this.#isOperatorMint = mints.policy.isOperatorMint(mintUrl);
    this.#queue = new PollQueue({
      ...deps,
      isOperatorMint: this.#isOperatorMint,
      isCovered: (quoteId) => this.#subscription?.isCovered(quoteId) ?? false,
    });
    this.#poller = new QuotePoller({
      ...deps,
      queue: this.#queue,
      client: mints.pollClient,
      limiter: mints.limiter,
      getMaxBatchSize: async () =>
        (await mints.infoCache.getKnown(mintUrl))?.batchCheck?.maxBatchSize ?? null,
      limits: mints.policy.getLimits(mintUrl),
      firstPollDelayMs: Math.random() * minPollIntervalMs,
    });
  }

  get contact(): MintContact {
    return this.#poller.contact;
  }

  /** Whether a quote is due at a mint that a user chose. Such a mint is polled only when it is its turn. */
  get isWaitingForTurn(): boolean {
    const canPoll = this.#polling === null && this.#poller.getWaitMs() === 0;
    return !this.#isOperatorMint && canPoll && this.#poller.hasDue();
  }

  get unpaidCount(): number {
    return this.#queue.unpaidCount;
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

  /** Makes the next tick read all quotes again. After a failover, for example, memory and database may differ. */
  reload(): void {
    this.#isLoaded = false;
  }

  /**
   * Loads the quotes, opens the subscription and records observations, if these are due. Also polls, if the operator
   * named the mint. Does not wait for the results. Called every second.
   */
  tick(): void {
    if (!this.#isLoaded) {
      this.#loading ??= this.#loadWatched();
    }
    void this.#openSubscription();
    this.#startRecording();
    if (this.#isOperatorMint) {
      this.poll();
    }
  }

  /** Polls the mint unless it is being polled or must not be polled yet. Does not wait for the results. */
  poll(): void {
    if (this.#polling !== null || this.#isStopping || this.#poller.getWaitMs() > 0) {
      return;
    }
    clearTimeout(this.#pollTimer);
    this.#polling = this.#pollAndRecord();
  }

  /** Closes the subscription, and tries once more to record pending observations. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#pollTimer);
    await this.#subscription?.close();
    await Promise.all([this.#polling, this.#loading]);
    this.#startRecording();
    await this.#recording;
  }

  async #loadWatched(): Promise<void> {
    const { mintUrl, db } = this.#deps;
    // Set before the read, so that a `reload` during the read has an effect.
    this.#isLoaded = true;
    try {
      let afterId = 0;
      let page: WatchedQuote[];
      do {
        page = await listWatchedByMint(db, mintUrl, afterId, PAGE_SIZE);
        this.#queue.add(page, false);
        afterId = page.at(-1)?.id ?? afterId;
      } while (page.length === PAGE_SIZE);
      this.#subscription?.subscribeOlder(this.#queue.listNewestIds(MAX_PENDING_QUOTES));
    } catch (error) {
      this.#isLoaded = false;
      this.#logFailure(error);
    }
    this.#loading = null;
  }

  /** Opens the subscription if the mint's info announces NUT-17. */
  async #openSubscription(): Promise<void> {
    const { mintUrl, mints, monotonicMs, log } = this.#deps;
    if (this.#subscription !== null) {
      return;
    }
    const info = await this.#findInfo().catch(() => null);
    const kind = info?.subscriptionKind;
    if (kind != null && this.#subscription === null && !this.#isStopping) {
      this.#subscription = new MintSubscription({
        mintUrl,
        kind,
        connect: mints.connectSocket,
        limiter: mints.limiter,
        connectionSlots: mints.socketSlots,
        anomalies: mints.anomalies,
        onObservation: (observation) => this.#handleSocketObservation(observation),
        onSubscribed: (quoteIds) => this.#queue.handleSubscribed(quoteIds),
        onUncovered: (quoteIds) => this.#queue.handleUncovered(quoteIds),
        monotonicMs,
        log,
      });
      this.#subscription.subscribe(this.#queue.listNewestIds(MAX_PENDING_QUOTES));
    }
  }

  /** Requests the info only once. Payers' requests keep it up to date. */
  async #findInfo(): Promise<MintInfo | null> {
    const { mintUrl, mints } = this.#deps;
    const known = await mints.infoCache.getKnown(mintUrl);
    if (known !== null || this.#hasRequestedInfo) {
      return known;
    }
    this.#hasRequestedInfo = true;
    return await mints.infoCache.refresh(mintUrl);
  }

  async #pollAndRecord(): Promise<void> {
    try {
      const observations = await this.#poller.poll();
      const waitMs = this.#poller.getWaitMs();
      this.#enqueueObservations(observations ?? []);
      const canPollSoon = this.#isOperatorMint && waitMs < TICK_INTERVAL_MS;
      if (observations !== null && canPollSoon && !this.#isStopping) {
        // Plus one millisecond: if the timer fires too early, the poll waits for the next tick.
        this.#pollTimer = setTimeout(() => this.poll(), Math.ceil(waitMs) + 1).unref();
      }
    } catch (error) {
      this.#logFailure(error);
    }
    this.#polling = null;
  }

  #handleSocketObservation(observation: QuoteObservation): void {
    if (this.#queue.shouldRecordReported(observation)) {
      this.#enqueueObservations([{ ...observation, source: 'socket' }]);
    }
  }

  #enqueueObservations(observations: readonly SourcedObservation[]): void {
    for (const observation of observations) {
      // Observations may arrive in any order, and a paid quote never becomes unpaid.
      const pendingState = this.#pendingObservations.get(observation.quoteId)?.state;
      const isStale = pendingState !== undefined && observation.state === 'UNPAID';
      if (!isStale && pendingState !== 'ISSUED') {
        this.#pendingObservations.set(observation.quoteId, observation);
      }
    }
    this.#startRecording();
  }

  #startRecording(): void {
    if (this.#recording === null && this.#pendingObservations.size > 0) {
      this.#recording = this.#recordPending();
    }
  }

  /** Records all pending observations. If one cannot be recorded, the next tick tries again. */
  async #recordPending(): Promise<void> {
    const { recordingSlots, mints, mintUrl } = this.#deps;
    const { maxRecordBatchSize } = mints.policy.getLimits(mintUrl);
    while (
      this.#pendingObservations.size > 0 &&
      (await recordingSlots.acquireWithin(mintUrl, MAX_SLOT_WAIT_MS))
    ) {
      const batch = [...this.#pendingObservations.values().take(maxRecordBatchSize)];
      for (const { quoteId } of batch) {
        this.#pendingObservations.delete(quoteId);
      }
      const isRecorded = await this.#record(batch);
      recordingSlots.release(mintUrl);
      if (!isRecorded) {
        break;
      }
    }
    this.#recording = null;
  }

  /**
   * Records a batch; one by one if the database rejects it, so that no observation blocks the others.
   *
   * @returns whether all observations are recorded; the others are pending again
   */
  async #record(batch: readonly SourcedObservation[]): Promise<boolean> {
    const { observationRecorder, mintUrl } = this.#deps;
    try {
      this.#applyRecorded(batch, await observationRecorder.record(mintUrl, batch));
      this.#outage.recordSuccess();
      return true;
    } catch (error) {
      if (batch.length > 1 && !(error instanceof DatabaseUnavailableError)) {
        let isRecorded = true;
        for (const observation of batch) {
          isRecorded = (await this.#record([observation])) && isRecorded;
        }
        return isRecorded;
      }
      const withoutNewer = batch.filter(({ quoteId }) => !this.#pendingObservations.has(quoteId));
      for (const observation of withoutNewer) {
        this.#pendingObservations.set(observation.quoteId, observation);
      }
      this.#logFailure(error);
      return false;
    }
  }

  #applyRecorded(batch: readonly SourcedObservation[], recorded: readonly RecordedQuote[]): void {
    const storedIds = new Set(recorded.map(({ quoteId }) => quoteId));
    for (const { quoteId } of batch.filter((each) => !storedIds.has(each.quoteId))) {
      this.#queue.remove(quoteId);
    }
    this.#queue.applyRecorded(recorded);
    const noLongerWatched = recorded.filter(({ isWatched }) => !isWatched);
    this.#subscription?.ignore(noLongerWatched.map(({ quoteId }) => quoteId));
    const changed = recorded.filter(({ hasStateChanged }) => hasStateChanged);
    const polledChanges = changed
      .filter(({ source, state }) => source === 'poll' && state !== 'EXPIRED')
      .map(({ quoteId }) => quoteId)
      .filter((quoteId) => !this.#queue.isJustSubscribed(quoteId));
    this.#subscription?.recordPolledChanges(polledChanges);
    this.#deps.onQuotesChanged(changed);
  }

  #logFailure(error: unknown): void {
    const level = this.#outage.recordFailure() ? retryLogLevel(error) : 'debug';
    this.#deps.log[level](
      { event: 'mint_watch_failed', err: error, mintUrl: this.#deps.mintUrl },
      'could not read or record quotes of a mint; retrying',
    );
  }
}
