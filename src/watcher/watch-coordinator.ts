import { BackgroundJob } from '../background-job.ts';
import { retryLogLevel } from '../errors.ts';
import { type MintHealth, saveMintHealth } from '../mints/mint-store.ts';
import type { SiteSemaphore } from '../net/site-semaphore.ts';
import { OutageTracker } from '../outage-tracker.ts';
import type { QuoteAnnouncement } from '../quotes/process-notifications.ts';
import {
  countWatchedByMint,
  findMaxRowId,
  listWatchedAfter,
  listWatchedMints,
  type WatchedMint,
} from '../quotes/watched-quote-store.ts';
import { waitAtMost } from '../wait-at-most.ts';
import {
  claimMints,
  releaseMint,
  removeWatchProcess,
  renewProcessLease,
  summariseWatchProcesses,
} from './lease-store.ts';
import {
  IDLE_MINT_TIMEOUT_MS,
  PAGE_SIZE,
  RESCAN_INTERVAL_MS,
  RESCAN_OVERLAP_ROWS,
  SCAN_INTERVAL_MS,
  USER_MINT_RECORDINGS,
} from './limits.ts';
import { MintWatcher, type WatchContext } from './mint-watcher.ts';
import { planLeases } from './plan-leases.ts';
import { PollTurns } from './poll-turns.ts';

interface CoordinatorContext extends WatchContext {
  /** Unique among all current and earlier processes. */
  processId: string;
  /** Returns the address of a reverse proxy that `TRUST_PROXY` does not contain, for the doctor. */
  getUntrustedProxy: () => string | null;
  /** Called with a new quote whose mint another process watches. */
  announce: (quote: QuoteAnnouncement) => void;
  /** If undefined, {@link SCAN_INTERVAL_MS}. */
  scanIntervalMs: number | undefined;
}

/** Watches this process's share of all mints with watched quotes. Leases in the database assign each mint to a process. */
export class WatchCoordinator {
  readonly #context: CoordinatorContext;
  readonly #recordingSlots: SiteSemaphore;
  readonly #renewalJob: BackgroundJob;
  readonly #scanJob: BackgroundJob;
  /** By mint URL, in the order of turns: a mint that users chose moves to the end when it is polled. */
  readonly #watchers = new Map<string, MintWatcher>();
  readonly #pollTurns = new PollTurns();
  /** By mint URL; each promise resolves when another process can claim the mint. */
  readonly #releasing = new Map<string, Promise<void>>();
  #mintsOwnedElsewhere: ReadonlySet<string> = new Set();
  /** The largest `quotes.id` that was read. Infinite until the first rescan: the mint watchers load all older rows. */
  #lastReadId = Number.POSITIVE_INFINITY;
  #nextRescanAtMs = 0;
  #isWatchBudgetLow = false;
  readonly #outage: OutageTracker;
  #isStopping = false;

  constructor(context: CoordinatorContext) {
    this.#context = context;
    this.#recordingSlots = context.mints.policy.createSlots(USER_MINT_RECORDINGS);
    this.#outage = new OutageTracker(context.monotonicMs);
    const onError = (error: unknown) => this.#logFailure(error);
    this.#renewalJob = new BackgroundJob({
      work: () => this.#renewProcessLease(),
      // Several renewals may fail before the lease expires.
      intervalMs: 3_000,
      onError,
    });
    this.#scanJob = new BackgroundJob({
      work: () => this.#scanMints(),
      intervalMs: context.scanIntervalMs ?? SCAN_INTERVAL_MS,
      onError,
    });
  }

  async start(): Promise<void> {
    await this.#renewalJob.run();
    this.#scanJob.start();
  }

  /** Returns how long the most overdue quote of each mint has been due, and since when its polls fail (ms since 1970). */
  listMintStatuses(): { mintUrl: string; overdueMs: number; failingSinceMs: number | null }[] {
    return [...this.#watchers.values()].map((watcher) => ({
      mintUrl: watcher.mintUrl,
      overdueMs: watcher.quotes.getMaxOverdueMs(),
      failingSinceMs: watcher.health.failingSinceMs,
    }));
  }

  /** Watches a quote that this process has created, or lets the process that watches its mint do so. */
  watchOrAnnounce(quote: QuoteAnnouncement): void {
    const watcher = this.#watchers.get(quote.mintUrl);
    if (watcher !== undefined) {
      watcher.watchNew(quote);
    } else if (this.#isStopping || this.#mintsOwnedElsewhere.has(quote.mintUrl)) {
      this.#context.announce(quote);
    } else {
      void this.#claimOrAnnounce(quote);
    }
  }

  /** Watches the quotes of other processes whose mints this process watches. */
  watchAnnounced(quotes: readonly QuoteAnnouncement[]): void {
    for (const quote of quotes) {
      this.#watchers.get(quote.mintUrl)?.watchNew(quote);
    }
  }

  /** Reads all watched quotes again. Call it after missed notifications. */
  reloadAll(): void {
    for (const watcher of this.#watchers.values()) {
      watcher.reload();
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#scanJob.stop();
    this.#releaseAll();
    const allReleased = Promise.all(this.#releasing.values());
    await waitAtMost(500, allReleased);
    await this.#renewalJob.stop();
    // If the database fails, the leases expire.
    await removeWatchProcess(this.#context.db, this.#context.processId).catch(() => undefined);
    await allReleased;
  }

  async #renewProcessLease(): Promise<void> {
    const { db, processId, getUntrustedProxy, log } = this.#context;
    const hadLease = await renewProcessLease(db, processId, {
      untrustedProxy: getUntrustedProxy(),
      unpaidQuotes: this.#countUnpaid(),
    });
    if (!hadLease && this.#watchers.size > 0) {
      log.warn(
        { event: 'leases_expired', mints: this.#watchers.size },
        'lease expired; releasing all mints',
      );
      this.#releaseAll();
    }
  }

  async #scanMints(): Promise<void> {
    const { db, processId, monotonicMs, log } = this.#context;
    const watchedMints = await listWatchedMints(db);
    const { count, maxUnpaidQuotes } = await summariseWatchProcesses(db);
    const { mine, elsewhere, toClaim, toRelease } = planLeases(watchedMints, processId, count);
    const claimed = toClaim.length === 0 ? [] : await claimMints(db, processId, toClaim);
    this.#mintsOwnedElsewhere = new Set(elsewhere);
    if (this.#outage.recordSuccess()) {
      log.info({ event: 'watcher_database_recovered' }, 'watcher can use the database again');
    }
    if (this.#isStopping) {
      return;
    }
    for (const mintUrl of [...mine, ...claimed]) {
      if (!this.#releasing.has(mintUrl)) {
        this.#getOrCreateWatcher(mintUrl).lastNeededAtMs = monotonicMs();
      }
    }
    this.#tickWatchers();
    for (const [mintUrl, { lastNeededAtMs }] of this.#watchers) {
      const isIdle = monotonicMs() - lastNeededAtMs > IDLE_MINT_TIMEOUT_MS;
      if (isIdle || toRelease.includes(mintUrl) || this.#mintsOwnedElsewhere.has(mintUrl)) {
        this.#releaseMint(mintUrl);
      }
    }
    if (monotonicMs() >= this.#nextRescanAtMs) {
      await this.#updateWatchBudget(watchedMints, maxUnpaidQuotes);
      await this.#readNewRows();
      this.#nextRescanAtMs = monotonicMs() + RESCAN_INTERVAL_MS;
    }
    await this.#storeMintHealth();
  }

  /** Claims a free mint immediately, because the payer may pay before the next scan. */
  async #claimOrAnnounce(quote: QuoteAnnouncement): Promise<void> {
    const { db, processId, announce } = this.#context;
    try {
      const claimed = await claimMints(db, processId, [quote.mintUrl]);
      if (claimed.length > 0 && !this.#isStopping && !this.#releasing.has(quote.mintUrl)) {
        // The new watcher reads the quote from the database.
        this.#getOrCreateWatcher(quote.mintUrl);
      } else {
        announce(quote);
      }
    } catch (error) {
      this.#logFailure(error);
    }
  }

  #getOrCreateWatcher(mintUrl: string): MintWatcher {
    const existing = this.#watchers.get(mintUrl);
    if (existing !== undefined) {
      return existing;
    }
    const watcher = new MintWatcher(mintUrl, this.#context, this.#recordingSlots);
    this.#watchers.set(mintUrl, watcher);
    watcher.tick();
    return watcher;
  }

  async #updateWatchBudget(watchedMints: readonly WatchedMint[], maxUnpaidQuotes: number) {
    const { db, mints, log } = this.#context;
    const mintUrls = watchedMints.map(({ mintUrl }) => mintUrl);
    const userMints = mintUrls.filter((mintUrl) => !mints.policy.isOperatorMint(mintUrl));
    mints.watchBudget.setCounts(
      await countWatchedByMint(db, userMints),
      Math.max(this.#countUnpaid(), maxUnpaidQuotes),
    );
    const lowSites = mints.watchBudget.listLowSites();
    if (lowSites.length > 0 && !this.#isWatchBudgetLow) {
      log.warn(
        { event: 'watch_budget_low', sites: lowSites.slice(0, 10) },
        'few further quotes can be watched at the mints of these sites; payers may be refused',
      );
    }
    this.#isWatchBudgetLow = lowSites.length > 0;
  }

  #countUnpaid(): number {
    let count = 0;
    for (const { quotes } of this.#watchers.values()) {
      count += quotes.unpaidCount;
    }
    return count;
  }

  /** Reads the new quotes of all mints and the {@link RESCAN_OVERLAP_ROWS} rows before them. */
  async #readNewRows(): Promise<void> {
    const { db } = this.#context;
    // After a failover of PostgreSQL, the largest id may be smaller than the last id that was read.
    const readUpToId = Math.min(this.#lastReadId, await findMaxRowId(db));
    let afterId = readUpToId - RESCAN_OVERLAP_ROWS;
    let page: Awaited<ReturnType<typeof listWatchedAfter>>;
    do {
      page = await listWatchedAfter(db, afterId, PAGE_SIZE);
      for (const [mintUrl, quotes] of Map.groupBy(page, (quote) => quote.mintUrl)) {
        this.#watchers.get(mintUrl)?.watchExisting(quotes);
      }
      afterId = page.at(-1)?.id ?? afterId;
    } while (page.length === PAGE_SIZE);
    this.#lastReadId = Math.max(readUpToId, afterId);
  }

  async #storeMintHealth(): Promise<void> {
    const outdated = [...this.#watchers.values()].flatMap((watcher) => {
      const { health } = watcher;
      return isStoredHealthOutdated(watcher.storedHealth, health) ? [{ watcher, health }] : [];
    });
    if (outdated.length > 0) {
      const rows = outdated.map(({ watcher, health }) => ({ mintUrl: watcher.mintUrl, ...health }));
      await saveMintHealth(this.#context.db, rows);
      for (const { watcher, health } of outdated) {
        watcher.storedHealth = health;
      }
    }
  }

  #tickWatchers(): void {
    const watchers = [...this.#watchers.values()];
    for (const watcher of watchers) {
      watcher.tick();
    }
    const waiting = watchers.filter(({ isWaitingForTurn }) => isWaitingForTurn);
    for (const watcher of this.#pollTurns.select(waiting)) {
      watcher.poll();
      this.#watchers.delete(watcher.mintUrl);
      this.#watchers.set(watcher.mintUrl, watcher);
    }
  }

  #releaseAll(): void {
    for (const mintUrl of this.#watchers.keys()) {
      this.#releaseMint(mintUrl);
    }
  }

  #releaseMint(mintUrl: string): void {
    const watcher = this.#watchers.get(mintUrl);
    this.#watchers.delete(mintUrl);
    if (watcher !== undefined) {
      const released = watcher
        .stop()
        .then(() => releaseMint(this.#context.db, this.#context.processId, mintUrl))
        .catch((error: unknown) => this.#logFailure(error))
        .finally(() => this.#releasing.delete(mintUrl));
      this.#releasing.set(mintUrl, released);
    }
  }

  #logFailure(error: unknown): void {
    const beginsOutage = this.#outage.recordFailure();
    const level = beginsOutage ? retryLogLevel(error) : 'debug';
    this.#context.log[level](
      { event: 'watcher_database_failed', err: error },
      'watcher cannot use the database; retrying',
    );
  }
}

function isStoredHealthOutdated(stored: MintHealth | null, current: MintHealth): boolean {
  const { answeredAtMs, failingSinceMs } = current;
  const storedAnswerMs = stored?.answeredAtMs ?? Number.NEGATIVE_INFINITY;
  return (
    failingSinceMs !== (stored?.failingSinceMs ?? null) ||
    // Once a minute, so that polls without news write little. If the clock was set back, the stored time is later.
    (answeredAtMs !== null && Math.abs(answeredAtMs - storedAnswerMs) >= 60_000)
  );
}
