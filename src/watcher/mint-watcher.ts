import type { Clock } from '../clock.ts';
import { isConstraintViolation } from '../database/errors.ts';
import type { Db } from '../database/transaction.ts';
import { DatabaseUnavailableError, retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { MintHealth } from '../mints/mint-store.ts';
import { MintSubscription } from '../mints/mint-subscription.ts';
import type { Mints } from '../mints/mints-module.ts';
import type { SiteSemaphore } from '../net/site-semaphore.ts';
import { OutageTracker } from '../outage-tracker.ts';
import type { RecordedQuote, SourcedObservation } from '../quotes/decide-observation.ts';
import { type RecordingContext, recordObservations } from '../quotes/observation-recorder.ts';
import type { QuoteAnnouncement } from '../quotes/process-notifications.ts';
import { listWatchedByMint, type WatchedQuoteRow } from '../quotes/watched-quote-store.ts';
import { MIN_POLL_INTERVAL_MS, PAGE_SIZE, SCAN_INTERVAL_MS } from './limits.ts';
import { QuotePoller } from './quote-poller.ts';
import { WatchedQuotes } from './watched-quotes.ts';

export interface WatchContext {
  mints: Mints;
  db: Db;
  recording: RecordingContext;
  /** Called with the quotes whose state changed, after the commit. */
  onQuotesChanged: (changed: readonly RecordedQuote[]) => void;
  /** If undefined, {@link MIN_POLL_INTERVAL_MS}. */
  minPollIntervalMs: number | undefined;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/**
 * Watches the quotes of one mint by a subscription (NUT-17), which is fast, and by polls, which miss nothing. Records
 * reports in batches, one batch at a time.
 */
export class MintWatcher {
  readonly #context: WatchContext;
  readonly mintUrl: string;
  readonly site: string;
  /** When the mint last had watched quotes. */
  lastNeededAtMs: number;
  /** The health that was last written to the database. */
  storedHealth: MintHealth | null = null;
  readonly #recordingSlots: SiteSemaphore;
  readonly #maxRecordBatchSize: number;
  /** If false, the mint shares a limited number of polls with others (`PollTurns`). */
  readonly #isOperatorMint: boolean;
  readonly quotes: WatchedQuotes;
  readonly #poller: QuotePoller;
  #subscription: MintSubscription | null = null;
  #hasRequestedInfo = false;
  #needsLoad = true;
  #loading: Promise<void> | null = null;
  #polling: Promise<void> | null = null;
  #pollTimer: NodeJS.Timeout | undefined;
  #recording: Promise<void> | null = null;
  /** Reports that were rejected. */
  #anomalyCount = 0;
  readonly #outage: OutageTracker;
  #isStopping = false;

  /** @param recordingSlots each transaction that records reports takes one; a mint of the operator has one of its own */
  constructor(mintUrl: string, context: WatchContext, recordingSlots: SiteSemaphore) {
    const { mints, minPollIntervalMs = MIN_POLL_INTERVAL_MS, clock, monotonicMs } = context;
    this.#context = context;
    this.mintUrl = mintUrl;
    this.site = mints.policy.getSite(mintUrl);
    this.lastNeededAtMs = monotonicMs();
    this.#recordingSlots = recordingSlots;
    this.#outage = new OutageTracker(monotonicMs);
    const limits = mints.policy.getLimits(mintUrl);
    this.#maxRecordBatchSize = limits.maxRecordBatchSize;
    this.#isOperatorMint = mints.policy.isOperatorMint(mintUrl);
    this.quotes = new WatchedQuotes({
      isOperatorMint: this.#isOperatorMint,
      clock,
      monotonicMs,
      onReport: () => this.#startRecording(),
    });
    this.#poller = new QuotePoller({
      mintUrl,
      quotes: this.quotes,
      client: mints.pollClient,
      limiter: mints.limiter,
      getMaxBatchSize: async () =>
        (await mints.infoCache.getKnown(mintUrl))?.batchCheck?.maxBatchSize ?? null,
      limits,
      minPollIntervalMs,
      firstPollDelayMs: Math.random() * minPollIntervalMs,
      clock,
      monotonicMs,
    });
  }

  get health(): MintHealth {
    return this.#poller.health;
  }

  /** Whether a mint that a user chose could be polled now. */
  get isWaitingForTurn(): boolean {
    return !this.#isOperatorMint && this.#canPoll();
  }

  watchNew(quote: QuoteAnnouncement): void {
    this.quotes.addNew({ ...quote, state: 'UNPAID', paidAtMs: null });
    this.#subscription?.subscribePending();
  }

  watchExisting(quotes: readonly WatchedQuoteRow[]): void {
    this.quotes.addExisting(quotes);
    this.#subscription?.subscribePending();
  }

  /** Makes the next tick read all quotes again. After a failover, memory and database may differ. */
  reload(): void {
    this.#needsLoad = true;
  }

  /** Starts what is due. Called every second. Leaves polls of mints that users chose to the coordinator. */
  tick(): void {
    if (this.#needsLoad) {
      this.#loading ??= this.#load();
    }
    this.#openSubscription().catch((error: unknown) => this.#logFailure(error));
    this.#startRecording();
    if (this.#isOperatorMint) {
      this.poll();
    }
  }

  /** Polls the mint unless no poll is due or one is running. The coordinator gives the mints that users chose their turns. */
  poll(): void {
    if (this.#canPoll()) {
      clearTimeout(this.#pollTimer);
      this.#polling = this.#poll();
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#pollTimer);
    await this.#subscription?.close();
    await Promise.all([this.#polling, this.#loading]);
    this.#startRecording();
    await this.#recording;
  }

  async #load(): Promise<void> {
    // Cleared before the read, so that a `reload` during the read has an effect.
    this.#needsLoad = false;
    try {
      let page: WatchedQuoteRow[] = [];
      do {
        const afterId = page.at(-1)?.id ?? 0;
        page = await listWatchedByMint(this.#context.db, this.mintUrl, afterId, PAGE_SIZE);
        this.watchExisting(page);
      } while (page.length === PAGE_SIZE);
    } catch (error) {
      this.#needsLoad = true;
      this.#logFailure(error);
    }
    this.#loading = null;
  }

  async #openSubscription(): Promise<void> {
    const { mints, monotonicMs, log } = this.#context;
    if (this.#subscription !== null) {
      return;
    }
    let info = await mints.infoCache.getKnown(this.mintUrl);
    // Requested only once by the watcher: each payer's request for an invoice refreshes it.
    if (info === null && !this.#hasRequestedInfo) {
      this.#hasRequestedInfo = true;
      info = await mints.infoCache.get(this.mintUrl);
    }
    const kind = info?.subscriptionKind;
    if (kind != null && this.#subscription === null && !this.#isStopping) {
      this.#subscription = new MintSubscription({
        mintUrl: this.mintUrl,
        kind,
        quotes: this.quotes,
        connect: mints.connectSocket,
        limiter: mints.limiter,
        connectionSlots: mints.socketSlots,
        monotonicMs,
        log,
      });
      this.#subscription.subscribePending();
    }
  }

  #canPoll(): boolean {
    const isIdle = this.#polling === null && !this.#isStopping;
    return isIdle && this.#poller.getWaitMs() === 0 && this.quotes.hasDue();
  }

  async #poll(): Promise<void> {
    try {
      await this.#poller.poll();
      const waitMs = this.#poller.getWaitMs();
      if (this.#isOperatorMint && waitMs < SCAN_INTERVAL_MS && !this.#isStopping) {
        // One millisecond later: a timer that fires slightly too early would leave the poll to the next tick.
        this.#pollTimer = setTimeout(() => this.poll(), Math.ceil(waitMs) + 1).unref();
      }
    } catch (error) {
      this.#logFailure(error);
    }
    this.#polling = null;
  }

  #startRecording(): void {
    if (this.#recording === null && this.quotes.hasReports()) {
      this.#recording = this.#recordReports();
    }
  }

  async #recordReports(): Promise<void> {
    // If no slot is free in time, the next tick tries again.
    while (
      this.quotes.hasReports() &&
      (await this.#recordingSlots.acquireWithin(this.mintUrl, 60_000))
    ) {
      const reports = this.quotes.takeReports(this.#maxRecordBatchSize);
      const isRecorded = await this.#record(reports);
      this.#recordingSlots.release(this.mintUrl);
      if (!isRecorded) {
        break;
      }
    }
    this.#recording = null;
  }

  /**
   * Records reports in one transaction. If the database rejects it, records them one by one, so that no report blocks the
   * others. Reports that cannot be recorded are kept for a retry. Returns whether all were recorded.
   */
  async #record(reports: readonly SourcedObservation[]): Promise<boolean> {
    const { recording, onQuotesChanged } = this.#context;
    try {
      const recorded = await recordObservations(recording, this.mintUrl, reports);
      this.quotes.applyRecorded(reports, recorded);
      onQuotesChanged(recorded.filter(({ hasStateChanged }) => hasStateChanged));
      this.#logAnomalies(recorded);
      this.#outage.recordSuccess();
      return true;
    } catch (error) {
      if (reports.length > 1 && !(error instanceof DatabaseUnavailableError)) {
        let areAllRecorded = true;
        for (const report of reports) {
          areAllRecorded = (await this.#record([report])) && areAllRecorded;
        }
        return areAllRecorded;
      }
      if (isConstraintViolation(error)) {
        // Rows were edited by hand. Their quote stays watched until an operator repairs them.
        const quotes = this.quotes.listRowIds(reports);
        this.#context.log.error(
          { event: 'quote_rows_inconsistent', err: error, mintUrl: this.mintUrl, quotes },
          'cannot record a payment: the rows of its quote and recipient contradict each other; ' +
            'the next poll will try again',
        );
        return true;
      }
      this.quotes.putBackReports(reports);
      this.#logFailure(error);
      return false;
    }
  }

  /** Logs the first anomaly of the mint, and again whenever their count has doubled. */
  #logAnomalies(recorded: readonly RecordedQuote[]): void {
    for (const { rejection: anomaly } of recorded.filter(({ rejection }) => rejection !== null)) {
      this.#anomalyCount += 1;
      if (Number.isInteger(Math.log2(this.#anomalyCount))) {
        const fields = { mintUrl: this.mintUrl, anomaly, count: this.#anomalyCount };
        this.#context.log.warn(
          { event: 'mint_anomaly', ...fields },
          'ignored invalid data from a mint',
        );
      }
    }
  }

  #logFailure(error: unknown): void {
    const beginsOutage = this.#outage.recordFailure();
    const level = beginsOutage ? retryLogLevel(error) : 'debug';
    this.#context.log[level](
      { event: 'mint_watch_failed', err: error, mintUrl: this.mintUrl },
      'could not read or record quotes of a mint; retrying',
    );
  }
}
