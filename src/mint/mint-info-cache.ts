import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { Clock } from '../domain/clock.ts';
import { dropOldest } from '../domain/drop-oldest.ts';
import { completeMintInfo, type MintInfo, type StoredMintInfo } from '../domain/mint-info.ts';
import type { Soon } from '../domain/soon.ts';
import type { MintClient } from './mint-client.ts';
import { single } from './single-flight.ts';

/** A mint's abilities and limits change rarely; what it refuses meanwhile is noticed anyway. */
const FRESH_FOR_MS = 5 * 60 * 1000;

/** How long a failed question counts as the answer, so that a dead mint does not stall every payer. */
const FAILURE_COUNTS_FOR_MS = 15_000;

/** Far more mints than are in use at a time; keeps strangers' urls from piling up. */
const MAX_CACHED_MINTS = 1_000;

export interface MintInfoCacheOptions {
  client: Pick<MintClient, 'readInfo'>;
  /** The info last remembered, from a place that outlives this process; null where there is none. */
  recall: (mintUrl: string) => Promise<StoredMintInfo | null>;
  /** Called when a mint's info is new or has changed. */
  remember: (mintUrl: string, info: MintInfo) => Promise<void>;
  clock: Clock;
  logger: Pick<Logger, 'warn'>;
}

/** Times in milliseconds since 1970. */
interface Entry {
  info: MintInfo | null;
  freshUntil: number;
  failureCountsUntil: number;
}

/**
 * What mints can do, without asking them at every payment. What is known is served at once and
 * refreshed behind; what was known before a restart is recalled, so that it needs no living mint.
 */
export class MintInfoCache {
  readonly #options: MintInfoCacheOptions;
  /** The mint that was asked the longest ago comes first: those in use are asked every few minutes. */
  readonly #entries = new Map<string, Entry>();
  readonly #loading = new Map<string, Promise<MintInfo | null>>();
  readonly #asking = new Map<string, Promise<MintInfo | null>>();

  constructor(options: MintInfoCacheOptions) {
    this.#options = options;
  }

  /**
   * What is known of the mint, which is there at once, else what it says now.
   *
   * @returns null where nothing is known of it and it does not answer as a mint
   */
  get(mintUrl: string): Soon<MintInfo | null> {
    const entry = this.#entryOf(mintUrl);
    if (entry === undefined) {
      return single(this.#loading, mintUrl, () => this.#load(mintUrl));
    }
    const now = this.#options.clock();
    if (now < entry.freshUntil || now < entry.failureCountsUntil) {
      return entry.info;
    }
    if (entry.info === null) {
      return this.refresh(mintUrl);
    }
    this.#refreshBehind(mintUrl);
    return entry.info;
  }

  /**
   * What the mint said within the last minutes, else what it says now: as when a user chooses it.
   *
   * @returns null where it does not answer as a mint
   */
  async current(mintUrl: string): Promise<MintInfo | null> {
    const entry = this.#entryOf(mintUrl);
    return entry !== undefined && this.#options.clock() < entry.freshUntil
      ? entry.info
      : await this.refresh(mintUrl);
  }

  /**
   * Asks the mint itself.
   *
   * @returns null where it does not answer as a mint, whatever was known before
   */
  async refresh(mintUrl: string): Promise<MintInfo | null> {
    return await single(this.#asking, mintUrl, () => this.#ask(mintUrl));
  }

  /** Where the clock was set back, what was learnt counts from now on, and no longer than it would. */
  #entryOf(mintUrl: string): Entry | undefined {
    const entry = this.#entries.get(mintUrl);
    if (entry !== undefined) {
      const now = this.#options.clock();
      entry.freshUntil = Math.min(entry.freshUntil, now + FRESH_FOR_MS);
      entry.failureCountsUntil = Math.min(entry.failureCountsUntil, now + FAILURE_COUNTS_FOR_MS);
    }
    return entry;
  }

  async #load(mintUrl: string): Promise<MintInfo | null> {
    const stored = await this.#options.recall(mintUrl);
    if (stored === null) {
      return await this.refresh(mintUrl);
    }
    const info = completeMintInfo(stored);
    this.#put(mintUrl, { info, freshUntil: 0, failureCountsUntil: 0 });
    this.#refreshBehind(mintUrl);
    return info;
  }

  async #ask(mintUrl: string): Promise<MintInfo | null> {
    const answer = await this.#options.client.readInfo(mintUrl);
    const known = this.#entries.get(mintUrl)?.info ?? null;
    const now = this.#options.clock();
    if (answer.outcome !== 'found') {
      const failureCountsUntil = now + FAILURE_COUNTS_FOR_MS;
      this.#put(mintUrl, { info: known, freshUntil: 0, failureCountsUntil });
      return null;
    }
    const { info } = answer;
    this.#put(mintUrl, { info, freshUntil: now + FRESH_FOR_MS, failureCountsUntil: 0 });
    if (!isDeepStrictEqual(info, known)) {
      await this.#remember(mintUrl, info);
    }
    return info;
  }

  async #remember(mintUrl: string, info: MintInfo): Promise<void> {
    try {
      await this.#options.remember(mintUrl, info);
    } catch (error) {
      // Dropped, so that it is learnt, and remembered, anew.
      this.#entries.delete(mintUrl);
      this.#options.logger.warn({ err: error, mintUrl }, 'mint info was not remembered');
    }
  }

  #refreshBehind(mintUrl: string): void {
    this.refresh(mintUrl).catch((error: unknown) => {
      this.#options.logger.warn({ err: error, mintUrl }, 'mint info was not refreshed');
    });
  }

  #put(mintUrl: string, entry: Entry): void {
    this.#entries.delete(mintUrl);
    this.#entries.set(mintUrl, entry);
    dropOldest(this.#entries, MAX_CACHED_MINTS);
  }
}
