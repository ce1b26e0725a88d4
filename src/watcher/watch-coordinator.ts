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
  readWatchProcesses,
  releaseMint,
  removeWatchProcess,
  renewProcessLease,
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

interface MintEntry {
  mintUrl: string;
  watcher: MintWatcher;
  site: string;
  lastNeededAtMs: number;
  storedHealth: MintHealth | null;
}

interface CoordinatorContext extends WatchContext {
  /** Unique among all current and earlier processes. */
  processId: string;
  /** Returns the address of a reverse proxy that `TRUST_PROXY` does not contain, for the doctor. */
  getUntrustedProxy: () => string | null;
  /** Called with a new quote whose mint another process watches. */
  announce: (quote: QuoteAnnouncement) => void;
  scanIntervalMs: number | undefined;
}

/** Watches this process's share of all mints with watched quotes. Leases in the database assign each mint to a process. */
export class WatchCoordinator {
  readonly #context: CoordinatorContext;
  readonly #recordingSlots: SiteSemaphore;
  readonly #renewalJob: BackgroundJob;
  readonly #scanJob: BackgroundJob;
  /** By mint URL. Of the mints that users chose, those that were polled last are at the end. */
  readonly #mints = new Map<string, MintEntry>();
  readonly #pollTurns = new PollTurns();
  /** The promises resolve when the mints are free. */
  readonly #releasing = new Map<string, Promise<void>>();
  #mintsOwnedElsewhere: ReadonlySet<string> = new Set();
  /** The largest `quotes.id` that was read. Infinite at first: the mint watchers load the older rows. */
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
    return [...this.#mints.values()].map(({ mintUrl, watcher }) => ({
      mintUrl,
      overdueMs: watcher.quotes.getMaxOverdueMs(),
      failingSinceMs: watcher.health.failingSinceMs,
    }));
  }

  watchOrAnnounce(quote: QuoteAnnouncement): void {
    const entry = this.#mints.get(quote.mintUrl);
    if (entry !== undefined) {
      entry.watcher.watchNew(quote);
    } else if (this.#isStopping || this.#mintsOwnedElsewhere.has(quote.mintUrl)) {
      this.#context.announce(quote);
    } else {
      void this.#claimOrAnnounce(quote);
    }
  }

  watchAnnounced(quotes: readonly QuoteAnnouncement[]): void {
    for (const quote of quotes) {
      this.#mints.get(quote.mintUrl)?.watcher.watchNew(quote);
    }
  }

  /** Reads all watched quotes again. Call it after missed notifications, or after an import. */
  reloadAll(): void {
    for (const { watcher } of this.#mints.values()) {
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
    const wasAlive = await renewProcessLease(db, processId, {
      untrustedProxy: getUntrustedProxy(),
      unpaidQuotes: this.#countUnpaid(),
    });
    if (!wasAlive && this.#mints.size > 0) {
      log.warn(
        { event: 'leases_expired', mints: this.#mints.size },
        'lease expired; releasing all mints',
      );
      this.#releaseAll();
    }
  }

  async #scanMints(): Promise<void> {
    const { db, processId, monotonicMs, log } = this.#context;
    const watched = await listWatchedMints(db);
    const { count, maxUnpaidQuotes } = await readWatchProcesses(db);
    const { mine, elsewhere, claim, release } = planLeases(watched, processId, count);
    const claimed = claim.length === 0 ? [] : await claimMints(db, processId, claim);
    this.#mintsOwnedElsewhere = new Set(elsewhere);
    if (this.#outage.recordSuccess()) {
      log.info({ event: 'watcher_database_recovered' }, 'watcher can use the database again');
    }
    if (this.#isStopping) {
      return;
    }
    for (const mintUrl of [...mine, ...claimed]) {
      if (!this.#releasing.has(mintUrl)) {
        this.#getOrCreateEntry(mintUrl).lastNeededAtMs = monotonicMs();
      }
    }
    this.#tickWatchers();
    for (const [mintUrl, { lastNeededAtMs }] of this.#mints) {
      const isIdle = monotonicMs() - lastNeededAtMs > IDLE_MINT_TIMEOUT_MS;
      if (isIdle || release.includes(mintUrl) || this.#mintsOwnedElsewhere.has(mintUrl)) {
        this.#releaseMint(mintUrl);
      }
    }
    if (monotonicMs() >= this.#nextRescanAtMs) {
      await this.#countWatched(watched, maxUnpaidQuotes);
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
        this.#getOrCreateEntry(quote.mintUrl);
      } else {
        announce(quote);
      }
    } catch (error) {
      this.#logFailure(error);
    }
  }

  #getOrCreateEntry(mintUrl: string): MintEntry {
    const existing = this.#mints.get(mintUrl);
    if (existing !== undefined) {
      return existing;
    }
    const { mints, monotonicMs } = this.#context;
    const entry: MintEntry = {
      mintUrl,
      watcher: new MintWatcher(mintUrl, this.#context, this.#recordingSlots),
      site: mints.policy.getSite(mintUrl),
      lastNeededAtMs: monotonicMs(),
      storedHealth: null,
    };
    this.#mints.set(mintUrl, entry);
    entry.watcher.tick();
    return entry;
  }

  async #countWatched(watched: readonly WatchedMint[], maxUnpaidQuotes: number): Promise<void> {
    const { db, mints, log } = this.#context;
    const mintUrls = watched.map(({ mintUrl }) => mintUrl);
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
    return [...this.#mints.values()].reduce(
      (sum, { watcher }) => sum + watcher.quotes.unpaidCount,
      0,
    );
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
        this.#mints.get(mintUrl)?.watcher.watchExisting(quotes);
      }
      afterId = page.at(-1)?.id ?? afterId;
    } while (page.length === PAGE_SIZE);
    this.#lastReadId = Math.max(readUpToId, afterId);
  }

  async #storeMintHealth(): Promise<void> {
    const outdated = [...this.#mints.values()].flatMap((entry) => {
      const { health } = entry.watcher;
      return isStoredHealthOutdated(entry.storedHealth, health) ? [{ entry, health }] : [];
    });
    if (outdated.length > 0) {
      await saveMintHealth(
        this.#context.db,
        outdated.map(({ entry: { mintUrl }, health }) => ({ mintUrl, ...health })),
      );
      for (const { entry, health } of outdated) {
        entry.storedHealth = health;
      }
    }
  }

  #tickWatchers(): void {
    const entries = [...this.#mints.values()];
    for (const { watcher } of entries) {
      watcher.tick();
    }
    const waiting = entries.filter(({ watcher }) => watcher.isWaitingForTurn);
    for (const entry of this.#pollTurns.select(waiting)) {
      entry.watcher.poll();
      this.#mints.delete(entry.mintUrl);
      this.#mints.set(entry.mintUrl, entry);
    }
  }

  #releaseAll(): void {
    for (const mintUrl of this.#mints.keys()) {
      this.#releaseMint(mintUrl);
    }
  }

  #releaseMint(mintUrl: string): void {
    const entry = this.#mints.get(mintUrl);
    this.#mints.delete(mintUrl);
    if (entry !== undefined) {
      const released = entry.watcher
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
    // Once a minute, so that polls without news write little. The clock may have been set back.
    (answeredAtMs !== null && Math.abs(answeredAtMs - storedAnswerMs) >= 60_000)
  );
}
