import type { Clock } from '../domain/clock.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';
import { Background } from './background.ts';
import type { MintWatcher } from './mint-watcher.ts';

/** How often the database is asked which mints have quotes that are due. */
export const SCAN_INTERVAL_MS = 1_000;

/**
 * A mint without open quotes keeps its watcher for a while: its socket's pace is remembered there, and
 * a mint counts how often sockets are opened.
 */
const LINGER_MS = 10 * 60_000;

/**
 * Watches every mint that has open quotes, each by a {@link MintWatcher} of its own, so that a slow
 * one delays no other. What to watch is read from the database; a new quote is told as well, to be
 * watched at once.
 */
export class QuoteWatcher {
  readonly #quotes: Pick<Store['quotes'], 'watchedMints'>;
  readonly #watchMint: (mintUrl: string) => MintWatcher;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #scan: Background;
  readonly #mints = new Map<string, { watcher: MintWatcher; lastNeededAtMs: number }>();
  #isStopping = false;

  /** @param parts.watchMint makes the watcher of one mint */
  constructor(parts: {
    quotes: Pick<Store['quotes'], 'watchedMints'>;
    watchMint: (mintUrl: string) => MintWatcher;
    scanIntervalMs: number;
    clock: Clock;
    log: Log;
  }) {
    this.#quotes = parts.quotes;
    this.#watchMint = parts.watchMint;
    this.#clock = parts.clock;
    this.#log = parts.log;
    this.#scan = new Background({
      work: () => this.#lookAround(),
      intervalMs: parts.scanIntervalMs,
      onError: (error) => this.#log.error({ err: error }, 'could not read which mints to watch'),
    });
  }

  /** Begins to watch, with all that an earlier run left open. */
  start(): void {
    this.#scan.start();
  }

  /** Watches a quote that was just issued, without waiting for the next look into the database. */
  notice(mintUrl: string, quoteId: string): void {
    if (!this.#isStopping) {
      this.#mintWatcher(mintUrl).notice(quoteId);
    }
  }

  /** Closes every socket; resolves when all that was heard is recorded. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#scan.stop();
    await Promise.all([...this.#mints.values()].map(({ watcher }) => watcher.stop()));
    this.#mints.clear();
  }

  async #lookAround(): Promise<void> {
    for (const { watcher } of this.#mints.values()) {
      watcher.catchUp();
    }
    for (const { mintUrl, nextDueAtMs } of await this.#quotes.watchedMints()) {
      if (this.#isStopping) {
        return;
      }
      const watcher = this.#mintWatcher(mintUrl);
      if (nextDueAtMs <= this.#clock()) {
        watcher.poll();
      }
    }
    this.#letGoOfIdle();
  }

  /** The watcher of a mint that is needed now. */
  #mintWatcher(mintUrl: string): MintWatcher {
    const lastNeededAtMs = this.#clock();
    const known = this.#mints.get(mintUrl);
    if (known !== undefined) {
      known.lastNeededAtMs = lastNeededAtMs;
      return known.watcher;
    }
    const watcher = this.#watchMint(mintUrl);
    this.#mints.set(mintUrl, { watcher, lastNeededAtMs });
    watcher.start();
    return watcher;
  }

  #letGoOfIdle(): void {
    const nowMs = this.#clock();
    for (const [mintUrl, { watcher, lastNeededAtMs }] of this.#mints) {
      if (nowMs - lastNeededAtMs > LINGER_MS) {
        this.#mints.delete(mintUrl);
        void watcher.stop();
      }
    }
  }
}
