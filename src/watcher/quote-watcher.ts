import { setTimeout as delay } from 'node:timers/promises';
import { Background } from '../background.ts';
import { retryLogLevel } from '../errors.ts';
import type { Log } from '../log.ts';
import type { IssuedQuote } from '../quotes/quote-channel.ts';
import type { WatchedMint, WatchedQuote } from '../quotes/quote-watch-store.ts';
import type { Store } from '../store.ts';
import { planLeases } from './lease-plan.ts';
import type { MintWatcher } from './mint-watcher.ts';

/** How often a process renews its lease: several times before it expires. */
const LEASE_RENEWAL_MS = 3_000;

/** How often the mints are shared among the processes, and each watcher is asked to do what is due. */
export const SCAN_INTERVAL_MS = 1_000;

/** How often new rows are read from the database, in case an announcement was lost. */
const RESCAN_EVERY_MS = 15_000;

/** Rows that are read again each time: rows become visible in another order than their ids. */
const REREAD_ROWS = 1_000;

/** New rows read at a time. */
const ROWS_AT_ONCE = 5_000;

/** A mint without open quotes keeps its watcher, and so its WebSocket, for a while. */
const LINGER_MS = 10 * 60_000;

/**
 * Mints that do not answer hold a connection for many seconds at each attempt. So many of them are polled
 * at a time, and any number of the others. Users choose mints, so the operator's own never wait for theirs.
 */
const MAX_SILENT_MINTS_AT_ONCE = 32;

/** At shutdown, other processes get the mints after this time even if answers are still awaited here. */
const LEAVE_WITHIN_MS = 500;

interface Watched {
  watcher: MintWatcher;
  /** Monotonic, in milliseconds. */
  lastNeededAtMs: number;
  /** The number of the scan in which it was last polled. */
  lastPolledScan: number;
}

export interface QuoteWatcherParts {
  quotes: Pick<Store['watch'], 'watchedMints' | 'newestId' | 'listNew'>;
  leases: Store['leases'];
  /** Unique among all processes, also earlier ones. */
  processId: string;
  /** Normalised URLs of the operator's mints. */
  ownMints: readonly string[];
  watchMint: (mintUrl: string) => MintWatcher;
  /** Called with a new quote whose mint another process watches. */
  announce: (quote: IssuedQuote) => void;
  scanIntervalMs: number;
  monotonicMs: () => number;
  log: Log;
}

/**
 * Watches this process's share of the mints that have open quotes, each with a {@link MintWatcher} of its
 * own, so that a slow mint delays no other. Leases in the database decide which process watches a mint.
 */
export class QuoteWatcher {
  readonly #parts: QuoteWatcherParts;
  readonly #renewal: Background;
  readonly #scan: Background;
  readonly #mints = new Map<string, Watched>();
  /** Mints that are being released: by URL, until their watcher has ended. */
  readonly #leaving = new Map<string, Promise<void>>();
  /** Mints that other processes watch. */
  #elsewhere: ReadonlySet<string> = new Set();
  /** The running processes, including this one. */
  #processes = 1;
  /** When each mint without an owner was first seen. */
  #freeSinceMs: ReadonlyMap<string, number> = new Map();
  #scans = 0;
  /** The largest `quotes.id` that was read. */
  #readUpToId = Number.POSITIVE_INFINITY;
  #nextRescanAtMs = 0;
  #isFailing = false;
  #isStopping = false;

  constructor(parts: QuoteWatcherParts) {
    this.#parts = parts;
    this.#renewal = new Background({
      work: () => this.#renew(),
      intervalMs: LEASE_RENEWAL_MS,
      onError: (error) => this.#logFailure(error),
    });
    this.#scan = new Background({
      work: () => this.#scanMints(),
      intervalMs: parts.scanIntervalMs,
      onError: (error) => this.#logFailure(error),
    });
  }

  /** Begins to watch, with everything that an earlier run left open. */
  async start(): Promise<void> {
    await this.#renewal.run();
    this.#scan.start();
  }

  /** How many mints this process watches, and how many of them gave no usable answer the last time. */
  get counts(): { watched: number; silent: number } {
    const watchers = [...this.#mints.values()];
    const silent = watchers.filter(({ watcher }) => watcher.isMintSilent).length;
    return { watched: watchers.length, silent };
  }

  /** How long the most overdue quote of each mint of this process has been due, in milliseconds. */
  overdue(): { mintUrl: string; overdueMs: number }[] {
    return [...this.#mints].map(([mintUrl, { watcher }]) => ({
      mintUrl,
      overdueMs: watcher.overdueMs(),
    }));
  }

  /** Watches a quote that was just issued in this process, or announces it to the process that does. */
  notice(quote: IssuedQuote): void {
    const mine = this.#mints.get(quote.mintUrl);
    if (mine !== undefined) {
      mine.watcher.notice([toWatched(quote)]);
    } else if (this.#isStopping || this.#elsewhere.has(quote.mintUrl)) {
      this.#parts.announce(quote);
    } else {
      void this.#claimOrAnnounce(quote);
    }
  }

  /** Watches quotes that other processes announced, if their mint is this process's. */
  noticeFromElsewhere(quotes: readonly IssuedQuote[]): void {
    for (const quote of quotes) {
      this.#mints.get(quote.mintUrl)?.watcher.notice([toWatched(quote)]);
    }
  }

  /** Reads all rows again: the connection for notifications was lost, or an import added rows. */
  rescan(): void {
    for (const { watcher } of this.#mints.values()) {
      watcher.reload();
    }
  }

  /** Releases the mints; resolves when everything observed is recorded. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#scan.stop();
    for (const mintUrl of this.#mints.keys()) {
      this.#leave(mintUrl);
    }
    const allLeft = Promise.all(this.#leaving.values());
    await Promise.race([allLeft, delay(LEAVE_WITHIN_MS, undefined, { ref: false })]);
    await this.#renewal.stop();
    // If the database fails, the lease expires by itself.
    await this.#parts.leases.leave(this.#parts.processId).catch(() => undefined);
    await allLeft;
  }

  async #renew(): Promise<void> {
    const { leases, processId } = this.#parts;
    const wasAlive = await leases.keepAlive(processId);
    this.#processes = await leases.countProcesses();
    if (!wasAlive && this.#mints.size > 0) {
      this.#parts.log.warn(
        { event: 'leases_expired', mints: this.#mints.size },
        'lease expired; mints were reassigned',
      );
      for (const mintUrl of this.#mints.keys()) {
        this.#leave(mintUrl);
      }
    }
  }

  async #scanMints(): Promise<void> {
    const watched = await this.#parts.quotes.watchedMints();
    const { mine, release } = await this.#share(watched);
    this.#logRecovery();
    if (this.#isStopping) {
      return;
    }
    this.#scans += 1;
    for (const mintUrl of mine) {
      if (!this.#leaving.has(mintUrl)) {
        this.#watchMint(mintUrl).lastNeededAtMs = this.#parts.monotonicMs();
      }
    }
    this.#tick();
    const lost = [...this.#mints.keys()].filter((mintUrl) => this.#elsewhere.has(mintUrl));
    for (const mintUrl of [...lost, ...release, ...this.#idle()]) {
      this.#leave(mintUrl);
    }
    await this.#readNewRows();
  }

  /**
   * Claims this process's share of the watched mints.
   *
   * @returns its mints, and those to stop watching and then release
   */
  async #share(watched: readonly WatchedMint[]): Promise<{ mine: string[]; release: string[] }> {
    const { leases, processId, monotonicMs } = this.#parts;
    const nowMs = monotonicMs();
    const free = watched.filter(({ owner }) => owner === null);
    // Free mints mean that a process may have left, which increases the share of the others.
    if (free.length > 0) {
      this.#processes = await leases.countProcesses();
    }
    this.#freeSinceMs = new Map(
      free.map(({ mintUrl }) => [mintUrl, this.#freeSinceMs.get(mintUrl) ?? nowMs]),
    );
    const freeSinceMs = this.#freeSinceMs;
    const plan = planLeases(watched, processId, this.#processes, freeSinceMs, nowMs);
    const claimed = plan.claim.length === 0 ? [] : await leases.claim(processId, plan.claim);
    const kept = watched.filter(({ owner }) => owner === processId);
    const others = watched.filter(({ owner }) => owner !== null && owner !== processId);
    this.#elsewhere = new Set(others.map(({ mintUrl }) => mintUrl));
    return { mine: [...kept.map(({ mintUrl }) => mintUrl), ...claimed], release: plan.release };
  }

  /** Takes a mint that no process watches, without waiting for the next scan: a payment may follow at once. */
  async #claimOrAnnounce(quote: IssuedQuote): Promise<void> {
    const { leases, processId, announce } = this.#parts;
    try {
      const claimed = await leases.claim(processId, [quote.mintUrl]);
      if (claimed.length > 0 && !this.#isStopping && !this.#leaving.has(quote.mintUrl)) {
        // The new watcher reads the quote from the database.
        this.#watchMint(quote.mintUrl);
      } else {
        announce(quote);
      }
    } catch (error) {
      this.#logFailure(error);
    }
  }

  #watchMint(mintUrl: string): Watched {
    const known = this.#mints.get(mintUrl);
    if (known !== undefined) {
      return known;
    }
    const watcher = this.#parts.watchMint(mintUrl);
    const watched = { watcher, lastNeededAtMs: this.#parts.monotonicMs(), lastPolledScan: 0 };
    this.#mints.set(mintUrl, watched);
    watcher.tick(true);
    return watched;
  }

  /** Reads the rows that became visible since the last time, and some before them, of all mints. */
  async #readNewRows(): Promise<void> {
    const { quotes, monotonicMs } = this.#parts;
    if (monotonicMs() < this.#nextRescanAtMs) {
      return;
    }
    // A mint's own watcher reads the rows that were there when its watch began. After a failover the
    // newest id may be smaller than the last one that was read.
    const readUpToId = Math.min(this.#readUpToId, await quotes.newestId());
    let afterId = readUpToId - REREAD_ROWS;
    let rows: (WatchedQuote & { mintUrl: string })[];
    do {
      rows = await quotes.listNew(afterId, ROWS_AT_ONCE);
      for (const [mintUrl, found] of Map.groupBy(rows, (row) => row.mintUrl)) {
        this.#mints.get(mintUrl)?.watcher.found(found);
      }
      afterId = rows.at(-1)?.id ?? afterId;
    } while (rows.length === ROWS_AT_ONCE);
    this.#readUpToId = Math.max(readUpToId, afterId);
    this.#nextRescanAtMs = monotonicMs() + RESCAN_EVERY_MS;
  }

  /** Lets every watcher do what is due. Mints that do not answer take turns. */
  #tick(): void {
    const silent = [...this.#mints]
      .filter(([mintUrl]) => !this.#parts.ownMints.includes(mintUrl))
      .map(([, watched]) => watched)
      .filter(({ watcher }) => watcher.isMintSilent)
      .sort((one, other) => one.lastPolledScan - other.lastPolledScan);
    const busy = silent.filter(({ watcher }) => watcher.isPolling).length;
    const postponed = new Set(silent.slice(Math.max(0, MAX_SILENT_MINTS_AT_ONCE - busy)));
    for (const each of this.#mints.values()) {
      const mayPoll = !postponed.has(each);
      each.lastPolledScan = mayPoll ? this.#scans : each.lastPolledScan;
      each.watcher.tick(mayPoll);
    }
  }

  #idle(): string[] {
    const nowMs = this.#parts.monotonicMs();
    return [...this.#mints]
      .filter(([, { lastNeededAtMs }]) => nowMs - lastNeededAtMs > LINGER_MS)
      .map(([mintUrl]) => mintUrl);
  }

  /** Ends the watch over a mint. Others may have it only when everything observed is recorded. */
  #leave(mintUrl: string): void {
    const watched = this.#mints.get(mintUrl);
    this.#mints.delete(mintUrl);
    if (watched !== undefined) {
      const left = watched.watcher
        .stop()
        .then(() => this.#parts.leases.release(this.#parts.processId, mintUrl))
        .catch((error: unknown) => this.#logFailure(error))
        .finally(() => this.#leaving.delete(mintUrl));
      this.#leaving.set(mintUrl, left);
    }
  }

  #logFailure(error: unknown): void {
    if (!this.#isFailing) {
      this.#isFailing = true;
      this.#parts.log[retryLogLevel(error)](
        { event: 'watcher_database_failed', err: error },
        'watcher cannot use the database; retrying',
      );
    }
  }

  #logRecovery(): void {
    if (this.#isFailing) {
      this.#isFailing = false;
      this.#parts.log.info(
        { event: 'watcher_database_recovered' },
        'watcher uses the database again',
      );
    }
  }
}

function toWatched({ id, quoteId, createdAtMs, expiresAtMs }: IssuedQuote): WatchedQuote {
  return { id, quoteId, state: 'UNPAID', createdAtMs, expiresAtMs, paidAtMs: null };
}
