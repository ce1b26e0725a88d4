import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import type { Log } from '../log.ts';
import type { WatchedMint } from '../store/quote-watch-store.ts';
import type { Store } from '../store/store.ts';
import { Background } from './background.ts';
import { LEASE_RENEWAL_MS, type MintLeases } from './mint-leases.ts';
import type { MintWatcher } from './mint-watcher.ts';

/** How often the database is asked which mints have quotes that are due. */
export const SCAN_INTERVAL_MS = 1_000;

/**
 * A mint without open quotes keeps its watcher for a while: its socket's pace is remembered there, and
 * a mint counts how often sockets are opened.
 */
const LINGER_MS = 10 * 60_000;

/**
 * Mints that do not answer hold a connection for many seconds at each attempt. So many of them are
 * asked at a time, and any number of the others.
 */
const MAX_SILENT_MINTS_AT_ONCE = 32;

/** The clock was set back where it is so much behind the last look: less is an ordinary correction. */
const SET_BACK_MS = 2_000;

/**
 * At the end, so long others wait for mints whose answer is awaited here. Both ask about the same quotes
 * after that, which costs a request: what one of them records is no news from the other.
 */
const LEAVE_WITHIN_MS = 500;

interface Watched {
  watcher: MintWatcher;
  /** Milliseconds since 1970. */
  lastNeededAtMs: number;
  /** The number of the look at which it was asked last. */
  lastPolledAt: number;
}

/** What {@link QuoteWatcher} needs; `service.ts` constructs it. */
export interface QuoteWatcherParts {
  quotes: Pick<Store['watch'], 'watchedMints'>;
  leases: MintLeases;
  /** Makes the watcher of one mint. */
  watchMint: (mintUrl: string) => MintWatcher;
  /** Told of a new quote whose mint another process watches. */
  announce: (mintUrl: string, quoteId: string) => void;
  scanIntervalMs: number;
  clock: Clock;
  log: Log;
}

/**
 * Watches this process's share of the mints that have open quotes, each by a {@link MintWatcher} of
 * its own, so that a slow one delays no other. What to watch is read from the database; a new quote
 * is told as well, to be watched at once.
 */
export class QuoteWatcher {
  readonly #parts: QuoteWatcherParts;
  readonly #renewal: Background;
  readonly #scan: Background;
  readonly #mints = new Map<string, Watched>();
  /** Mints that are being let go of: by url, until their watcher has ended and others may have them. */
  readonly #leaving = new Map<string, Promise<void>>();
  /** Mints that other processes watch. */
  #elsewhere: ReadonlySet<string> = new Set();
  /** What the last look found that other processes do not watch. */
  #due: readonly WatchedMint[] = [];
  #looks = 0;
  #lastLookAtMs = 0;
  #lastRenewedAtMs = 0;
  /** Whether the database could not be read the last time. */
  #isBlind = false;
  #isStopping = false;

  constructor(parts: QuoteWatcherParts) {
    this.#parts = parts;
    this.#renewal = new Background({
      work: () => this.#renew(),
      intervalMs: LEASE_RENEWAL_MS,
      onError: (error) => this.#loseSight(error),
    });
    this.#scan = new Background({
      work: () => this.#lookAround(),
      intervalMs: parts.scanIntervalMs,
      onError: (error) => this.#loseSight(error),
    });
  }

  /** Begins to watch, with all that an earlier run left open. */
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

  /** As of the last look, what this process has to watch, and what no process does. */
  get due(): readonly WatchedMint[] {
    return this.#due;
  }

  /** Watches a quote that was just issued here, without waiting for the next look into the database. */
  notice(mintUrl: string, quoteId: string): void {
    const isElsewhere = this.#elsewhere.has(mintUrl) || this.#isStopping;
    if (!this.#watchAtOnce(mintUrl, [quoteId]) && isElsewhere) {
      this.#parts.announce(mintUrl, quoteId);
    }
  }

  /** Watches quotes that other processes have issued, where their mint is this process's. */
  noticeFromElsewhere(mintUrl: string, quoteIds: readonly string[]): void {
    this.#watchAtOnce(mintUrl, quoteIds);
  }

  /**
   * Records again what was recorded shortly before the database went away.
   *
   * @param sinceMs when the database was last known to be there (milliseconds since 1970)
   */
  hearAgain(sinceMs: number): void {
    for (const { watcher } of this.#mints.values()) {
      watcher.hearAgain(sinceMs);
    }
  }

  /**
   * Closes every socket, and soon lets other processes have the mints; resolves when all that was heard
   * is recorded.
   */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#scan.stop();
    for (const mintUrl of this.#mints.keys()) {
      this.#leave(mintUrl);
    }
    const allLeft = Promise.all(this.#leaving.values());
    await Promise.race([allLeft, delay(LEAVE_WITHIN_MS, undefined, { ref: false })]);
    await this.#renewal.stop();
    // Without the database the lease ends by itself.
    await this.#parts.leases.leave().catch(() => undefined);
    await allLeft;
  }

  #watchAtOnce(mintUrl: string, quoteIds: readonly string[]): boolean {
    const mine = this.#mints.get(mintUrl);
    if (mine !== undefined) {
      mine.watcher.notice(quoteIds);
    } else if (!this.#elsewhere.has(mintUrl) && !this.#isStopping) {
      void this.#scan.run();
    }
    return mine !== undefined;
  }

  async #renew(): Promise<void> {
    const lastRenewedAtMs = this.#lastRenewedAtMs;
    const wasAlive = await this.#parts.leases.renew();
    this.#lastRenewedAtMs = this.#parts.clock();
    if (!wasAlive && this.#mints.size > 0) {
      this.#parts.log.warn('this process was taken for dead by others; it begins to watch anew');
      // The database may have been away for so long, and others know nothing of what it lost.
      this.hearAgain(lastRenewedAtMs);
      for (const mintUrl of this.#mints.keys()) {
        this.#leave(mintUrl);
      }
    }
  }

  async #lookAround(): Promise<void> {
    this.#mindTheClock();
    const watched = await this.#parts.quotes.watchedMints();
    const { mine, elsewhere, release } = await this.#parts.leases.share(watched);
    this.#regainSight();
    for (const { watcher } of this.#mints.values()) {
      watcher.catchUp();
    }
    this.#elsewhere = elsewhere;
    this.#due = watched.filter(({ mintUrl }) => !elsewhere.has(mintUrl));
    if (this.#isStopping) {
      return;
    }
    this.#pollDue(watched.filter(({ mintUrl }) => mine.has(mintUrl)));
    const lost = [...this.#mints.keys()].filter((mintUrl) => elsewhere.has(mintUrl));
    for (const mintUrl of [...lost, ...release, ...this.#idle()]) {
      this.#leave(mintUrl);
    }
  }

  /** A clock that was set back would put off all that was planned by it. */
  #mindTheClock(): void {
    const nowMs = this.#parts.clock();
    if (nowMs < this.#lastLookAtMs - SET_BACK_MS) {
      for (const { watcher } of this.#mints.values()) {
        watcher.mindTheClock();
      }
    }
    this.#looks += 1;
    this.#lastLookAtMs = nowMs;
  }

  /** Asks mints that answer at once; those that do not take turns. */
  #pollDue(mine: readonly WatchedMint[]): void {
    const nowMs = this.#parts.clock();
    const due = mine
      .filter(({ mintUrl }) => !this.#leaving.has(mintUrl))
      .map((mint) => ({ mint, watched: this.#watchedMint(mint.mintUrl) }))
      .filter(({ mint }) => mint.nextDueAtMs <= nowMs);
    const silent = due
      .filter(({ watched }) => watched.watcher.isMintSilent)
      .sort((one, other) => one.watched.lastPolledAt - other.watched.lastPolledAt);
    const busy = [...this.#mints.values()].filter(
      ({ watcher }) => watcher.isMintSilent && watcher.isPolling,
    );
    const postponed = new Set(silent.slice(Math.max(0, MAX_SILENT_MINTS_AT_ONCE - busy.length)));
    for (const each of due) {
      if (!postponed.has(each)) {
        each.watched.lastPolledAt = this.#looks;
        each.watched.watcher.poll();
      }
    }
  }

  /** The watcher of a mint that is needed now. */
  #watchedMint(mintUrl: string): Watched {
    const lastNeededAtMs = this.#parts.clock();
    const known = this.#mints.get(mintUrl);
    if (known !== undefined) {
      known.lastNeededAtMs = lastNeededAtMs;
      return known;
    }
    const watched = { watcher: this.#parts.watchMint(mintUrl), lastNeededAtMs, lastPolledAt: 0 };
    this.#mints.set(mintUrl, watched);
    watched.watcher.start();
    return watched;
  }

  /** Mints that had nothing to watch for a long time. */
  #idle(): string[] {
    const nowMs = this.#parts.clock();
    return [...this.#mints]
      .filter(([, { lastNeededAtMs }]) => nowMs - lastNeededAtMs > LINGER_MS)
      .map(([mintUrl]) => mintUrl);
  }

  /** Ends the watch over a mint; others may have it only when all that was heard is recorded. */
  #leave(mintUrl: string): void {
    const watched = this.#mints.get(mintUrl);
    this.#mints.delete(mintUrl);
    if (watched !== undefined) {
      const left = watched.watcher
        .stop()
        .then(() => this.#parts.leases.release(mintUrl))
        .catch((error: unknown) =>
          this.#parts.log.warn({ err: error, mintUrl }, 'left a mint late'),
        )
        .finally(() => this.#leaving.delete(mintUrl));
      this.#leaving.set(mintUrl, left);
    }
  }

  #loseSight(error: unknown): void {
    if (!this.#isBlind) {
      this.#isBlind = true;
      this.#parts.log.error({ err: error }, 'the watcher cannot read the database; it tries again');
    }
  }

  #regainSight(): void {
    if (this.#isBlind) {
      this.#isBlind = false;
      this.#parts.log.info('the watcher reads the database again');
    }
  }
}
