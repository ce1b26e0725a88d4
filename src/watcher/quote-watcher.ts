import { setTimeout as delay } from 'node:timers/promises';
import { BackgroundJob } from '../background-job.ts';
import { retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { QuoteAnnouncement } from '../quotes/quote-notifications.ts';
import type { WatchedMint, WatchedQuote } from '../quotes/watched-quote-store.ts';
import type { Store } from '../store.ts';
import type { MintWatcher } from './mint-watcher.ts';
import { planLeases } from './plan-leases.ts';

/** A lease lasts several times as long. */
const LEASE_RENEWAL_INTERVAL_MS = 3_000;

/** How often leases are balanced among the processes, and each watcher's `tick` is called. */
export const SCAN_INTERVAL_MS = 1_000;

/** How often new rows are read, in case an announcement was lost. */
const RESCAN_INTERVAL_MS = 15_000;

/** Rows that each rescan repeats: rows become visible out of the order of their ids. */
const RESCAN_OVERLAP_ROWS = 1_000;

const PAGE_SIZE = 5_000;

/** How long a mint without watched quotes keeps its watcher, and so its WebSocket. */
const IDLE_MINT_TIMEOUT_MS = 10 * 60_000;

/** Each attempt occupies a connection for many seconds. The operator's mints are not limited. */
const MAX_CONCURRENT_UNRESPONSIVE_POLLS = 32;

/** At shutdown, mints are released after this time even if requests are in flight. */
const SHUTDOWN_RELEASE_TIMEOUT_MS = 500;

interface MintEntry {
  watcher: MintWatcher;
  /** Monotonic. */
  lastNeededAtMs: number;
}

export interface QuoteWatcherDeps {
  quoteStore: Pick<Store['watchedQuotes'], 'listWatchedMints' | 'findMaxId' | 'listWatchedAfter'>;
  leaseStore: Store['leases'];
  /** Unique among all processes, including earlier ones. */
  processId: string;
  /** Normalised URLs of the operator's mints. */
  operatorMints: readonly string[];
  createMintWatcher: (mintUrl: string) => MintWatcher;
  /** Called with a new quote whose mint another process watches. */
  announce: (quote: QuoteAnnouncement) => void;
  scanIntervalMs: number;
  monotonicMs: () => number;
  log: Logger;
}

/**
 * Watches this process's share of the mints with watched quotes, as leases in the database assign
 * them. Each mint has its own {@link MintWatcher}, so that a slow mint delays no other.
 */
export class QuoteWatcher {
  readonly #deps: QuoteWatcherDeps;
  readonly #renewalJob: BackgroundJob;
  readonly #scanJob: BackgroundJob;
  /** Unresponsive mints in the order of their turns to be polled. */
  readonly #mints = new Map<string, MintEntry>();
  /** Mints that are being released, until their watcher has stopped. */
  readonly #releasing = new Map<string, Promise<void>>();
  #mintsOwnedElsewhere: ReadonlySet<string> = new Set();
  /** When each free mint was first seen without an owner. */
  #freeSinceMs: ReadonlyMap<string, number> = new Map();
  /** `quotes.id`. */
  #lastReadId = Number.POSITIVE_INFINITY;
  #nextRescanAtMs = 0;
  #isFailing = false;
  #isStopping = false;

  constructor(deps: QuoteWatcherDeps) {
    this.#deps = deps;
    this.#renewalJob = new BackgroundJob({
      work: () => this.#renewLease(),
      intervalMs: LEASE_RENEWAL_INTERVAL_MS,
      onError: (error) => this.#logFailure(error),
    });
    this.#scanJob = new BackgroundJob({
      work: () => this.#scanMints(),
      intervalMs: deps.scanIntervalMs,
      onError: (error) => this.#logFailure(error),
    });
  }

  async start(): Promise<void> {
    await this.#renewalJob.run();
    this.#scanJob.start();
  }

  /** How many mints this process watches, and how many of them are unresponsive. */
  get mintCounts(): { watched: number; unresponsive: number } {
    const watchers = [...this.#mints.values()];
    const unresponsive = watchers.filter(({ watcher }) => watcher.isMintUnresponsive).length;
    return { watched: watchers.length, unresponsive };
  }

  /** Returns how long the most overdue quote of each watched mint has been due. */
  listOverdue(): { mintUrl: string; overdueMs: number }[] {
    return [...this.#mints].map(([mintUrl, { watcher }]) => ({
      mintUrl,
      overdueMs: watcher.getMaxOverdueMs(),
    }));
  }

  /** Watches a new quote, or announces it to the process that watches its mint. */
  watchOrAnnounce(quote: QuoteAnnouncement): void {
    const entry = this.#mints.get(quote.mintUrl);
    if (entry !== undefined) {
      entry.watcher.watchNew(quote);
    } else if (this.#isStopping || this.#mintsOwnedElsewhere.has(quote.mintUrl)) {
      this.#deps.announce(quote);
    } else {
      void this.#claimOrAnnounce(quote);
    }
  }

  /** Watches quotes that other processes announced, if this process watches their mint. */
  watchAnnounced(quotes: readonly QuoteAnnouncement[]): void {
    for (const quote of quotes) {
      this.#mints.get(quote.mintUrl)?.watcher.watchNew(quote);
    }
  }

  /** Reads all rows again, after notifications were missed or an import added rows. */
  rescan(): void {
    for (const { watcher } of this.#mints.values()) {
      watcher.reload();
    }
  }

  /** Releases the mints; resolves when all observations are recorded. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#scanJob.stop();
    for (const mintUrl of this.#mints.keys()) {
      this.#releaseMint(mintUrl);
    }
    const allReleased = Promise.all(this.#releasing.values());
    const timeout = delay(SHUTDOWN_RELEASE_TIMEOUT_MS, undefined, { ref: false });
    await Promise.race([allReleased, timeout]);
    await this.#renewalJob.stop();
    // If the database fails, the lease expires.
    await this.#deps.leaseStore.removeProcess(this.#deps.processId).catch(() => undefined);
    await allReleased;
  }

  async #renewLease(): Promise<void> {
    const { leaseStore, processId } = this.#deps;
    const wasAlive = await leaseStore.renewLease(processId);
    if (!wasAlive && this.#mints.size > 0) {
      this.#deps.log.warn(
        { event: 'leases_expired', mints: this.#mints.size },
        'lease expired; mints were reassigned',
      );
      for (const mintUrl of this.#mints.keys()) {
        this.#releaseMint(mintUrl);
      }
    }
  }

  async #scanMints(): Promise<void> {
    const watched = await this.#deps.quoteStore.listWatchedMints();
    const { mine, release } = await this.#balanceLeases(watched);
    this.#logRecovery();
    if (this.#isStopping) {
      return;
    }
    for (const mintUrl of mine) {
      if (!this.#releasing.has(mintUrl)) {
        this.#getOrCreateEntry(mintUrl).lastNeededAtMs = this.#deps.monotonicMs();
      }
    }
    this.#tickWatchers();
    for (const [mintUrl, { lastNeededAtMs }] of this.#mints) {
      const isIdle = this.#deps.monotonicMs() - lastNeededAtMs > IDLE_MINT_TIMEOUT_MS;
      if (isIdle || release.includes(mintUrl) || this.#mintsOwnedElsewhere.has(mintUrl)) {
        this.#releaseMint(mintUrl);
      }
    }
    await this.#readNewRows();
  }

  /** Claims mints. Returns the mints of this process, and those among them to release. */
  async #balanceLeases(
    watched: readonly WatchedMint[],
  ): Promise<{ mine: string[]; release: string[] }> {
    const { leaseStore, processId, monotonicMs } = this.#deps;
    const nowMs = monotonicMs();
    const listMints = (isIncluded: (owner: string | null) => boolean) =>
      watched
        .filter(({ ownerProcessId }) => isIncluded(ownerProcessId))
        .map(({ mintUrl }) => mintUrl);
    this.#freeSinceMs = new Map(
      listMints((owner) => owner === null).map((mintUrl) => [
        mintUrl,
        this.#freeSinceMs.get(mintUrl) ?? nowMs,
      ]),
    );
    const processCount = await leaseStore.countProcesses();
    const plan = planLeases(watched, processId, processCount, this.#freeSinceMs, nowMs);
    const claimed =
      plan.claim.length === 0 ? [] : await leaseStore.claimMints(processId, plan.claim);
    this.#mintsOwnedElsewhere = new Set(
      listMints((owner) => owner !== null && owner !== processId),
    );
    const mine = [...listMints((owner) => owner === processId), ...claimed];
    return { mine, release: plan.release };
  }

  /** Claims a free mint without waiting for the next scan: a payment may follow soon. */
  async #claimOrAnnounce(quote: QuoteAnnouncement): Promise<void> {
    const { leaseStore, processId, announce } = this.#deps;
    try {
      const claimed = await leaseStore.claimMints(processId, [quote.mintUrl]);
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
    const watcher = this.#deps.createMintWatcher(mintUrl);
    const entry = { watcher, lastNeededAtMs: this.#deps.monotonicMs() };
    this.#mints.set(mintUrl, entry);
    watcher.tick(true);
    return entry;
  }

  /** Reads the new rows of all mints, and some before them. */
  async #readNewRows(): Promise<void> {
    const { quoteStore, monotonicMs } = this.#deps;
    if (monotonicMs() < this.#nextRescanAtMs) {
      return;
    }
    // The first scan skips existing rows, which each mint's watcher loads. After a failover, the
    // newest id may be smaller than the last one that was read.
    const readUpToId = Math.min(this.#lastReadId, await quoteStore.findMaxId());
    let afterId = readUpToId - RESCAN_OVERLAP_ROWS;
    let rows: (WatchedQuote & { mintUrl: string })[];
    do {
      rows = await quoteStore.listWatchedAfter(afterId, PAGE_SIZE);
      for (const [mintUrl, found] of Map.groupBy(rows, (row) => row.mintUrl)) {
        this.#mints.get(mintUrl)?.watcher.watchExisting(found);
      }
      afterId = rows.at(-1)?.id ?? afterId;
    } while (rows.length === PAGE_SIZE);
    this.#lastReadId = Math.max(readUpToId, afterId);
    this.#nextRescanAtMs = monotonicMs() + RESCAN_INTERVAL_MS;
  }

  /** Calls `tick` of every watcher. Unresponsive mints take turns to be polled. */
  #tickWatchers(): void {
    const entries = [...this.#mints];
    const isLimited = ([mintUrl, { watcher }]: [string, MintEntry]) =>
      watcher.isMintUnresponsive && !this.#deps.operatorMints.includes(mintUrl);
    const polling = entries.filter((each) => isLimited(each) && each[1].watcher.isPolling);
    let freeSlots = MAX_CONCURRENT_UNRESPONSIVE_POLLS - polling.length;
    for (const [mintUrl, entry] of entries) {
      const canPoll = !isLimited([mintUrl, entry]) || freeSlots > 0;
      if (isLimited([mintUrl, entry]) && canPoll) {
        freeSlots -= 1;
        // Behind the others, for the next scan.
        this.#mints.delete(mintUrl);
        this.#mints.set(mintUrl, entry);
      }
      entry.watcher.tick(canPoll);
    }
  }

  /** Stops watching a mint, and frees it for other processes once all observations are recorded. */
  #releaseMint(mintUrl: string): void {
    const entry = this.#mints.get(mintUrl);
    this.#mints.delete(mintUrl);
    if (entry !== undefined) {
      const released = entry.watcher
        .stop()
        .then(() => this.#deps.leaseStore.releaseMint(this.#deps.processId, mintUrl))
        .catch((error: unknown) => this.#logFailure(error))
        .finally(() => this.#releasing.delete(mintUrl));
      this.#releasing.set(mintUrl, released);
    }
  }

  #logFailure(error: unknown): void {
    const level = this.#isFailing ? 'debug' : retryLogLevel(error);
    this.#isFailing = true;
    this.#deps.log[level](
      { event: 'watcher_database_failed', err: error },
      'watcher cannot use the database; retrying',
    );
  }

  #logRecovery(): void {
    if (this.#isFailing) {
      this.#isFailing = false;
      this.#deps.log.info(
        { event: 'watcher_database_recovered' },
        'watcher can use the database again',
      );
    }
  }
}
