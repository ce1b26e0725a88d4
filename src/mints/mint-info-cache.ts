import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';
import { MAX_CACHED_MINTS } from './limits.ts';
import type { MintClient, ReadInfoResult } from './mint-client.ts';
import type { MintInfo } from './mint-info.ts';

/** Old info does little harm: mints rarely change what they support, and reject quotes that they do not support. */
const INFO_TTL_MS = 5 * 60_000;

/** How long a failure is cached if older info can be used, or if the server is not a mint. Others are not cached. */
const FAILURE_TTL_MS = 15_000;

interface MintInfoCacheContext {
  client: Pick<MintClient, 'readInfo'>;
  loadInfo: (mintUrl: string) => Promise<MintInfo | null>;
  saveInfo: (mintUrl: string, info: MintInfo) => Promise<void>;
  monotonicMs: () => number;
  log: Pick<Logger, 'warn'>;
}

interface CacheEntry {
  info: MintInfo | null;
  hasLastRequestSucceeded: boolean;
  /** On the monotonic clock. */
  refreshDueAtMs: number;
}

/** Caches the info of mints (NUT-06), and stores it, so that invoices do not need `/v1/info` after a restart. */
export class MintInfoCache {
  readonly #context: MintInfoCacheContext;
  readonly #entries = new LRUCache<string, CacheEntry>({ max: MAX_CACHED_MINTS });
  readonly #pendingRequests = new Map<string, Promise<ReadInfoResult>>();

  constructor(context: MintInfoCacheContext) {
    this.#context = context;
  }

  /** Returns the last known info, and refreshes it in the background if it is old. Waits if there is none. */
  async get(mintUrl: string): Promise<MintInfo | null> {
    const { monotonicMs, log } = this.#context;
    const entry = await this.#getEntry(mintUrl);
    if (monotonicMs() < entry.refreshDueAtMs) {
      return entry.info;
    }
    const refreshed = this.#request(mintUrl);
    if (entry.info === null) {
      const result = await refreshed;
      return result.outcome === 'found' ? result.info : null;
    }
    refreshed.catch((error: unknown) => {
      const event = 'mint_info_refresh_failed';
      log.warn({ event, err: error, mintUrl }, 'could not refresh the info of a mint');
    });
    return entry.info;
  }

  /** Returns the last known info without a request; null if the mint has never sent any. */
  async getKnown(mintUrl: string): Promise<MintInfo | null> {
    return (await this.#getEntry(mintUrl)).info;
  }

  /** Returns info that is at most 5 minutes old, or why there is none. */
  async lookUp(mintUrl: string): Promise<ReadInfoResult> {
    const entry = this.#entries.get(mintUrl);
    const isFresh =
      entry?.hasLastRequestSucceeded && this.#context.monotonicMs() < entry.refreshDueAtMs;
    return isFresh && entry.info !== null
      ? { outcome: 'found', info: entry.info }
      : await this.#request(mintUrl);
  }

  /** Concurrent callers share a request. */
  #request(mintUrl: string): Promise<ReadInfoResult> {
    return this.#pendingRequests.getOrInsertComputed(mintUrl, () =>
      this.#fetchInfo(mintUrl).finally(() => this.#pendingRequests.delete(mintUrl)),
    );
  }

  async #getEntry(mintUrl: string): Promise<CacheEntry> {
    let entry = this.#entries.get(mintUrl);
    if (entry === undefined) {
      const info = await this.#context.loadInfo(mintUrl);
      // A concurrent caller may have added the entry meanwhile.
      entry = this.#entries.get(mintUrl) ?? {
        info,
        hasLastRequestSucceeded: false,
        refreshDueAtMs: 0,
      };
      this.#entries.set(mintUrl, entry);
    }
    return entry;
  }

  async #fetchInfo(mintUrl: string): Promise<ReadInfoResult> {
    const { client, saveInfo, monotonicMs, log } = this.#context;
    const [entry, result] = await Promise.all([this.#getEntry(mintUrl), client.readInfo(mintUrl)]);
    const nowMs = monotonicMs();
    if (result.outcome !== 'found') {
      entry.hasLastRequestSucceeded = false;
      const isFailureCached = entry.info !== null || result.outcome === 'invalid';
      entry.refreshDueAtMs = nowMs + (isFailureCached ? FAILURE_TTL_MS : 0);
      return result;
    }
    entry.info = result.info;
    entry.hasLastRequestSucceeded = true;
    entry.refreshDueAtMs = nowMs + INFO_TTL_MS;
    await saveInfo(mintUrl, result.info).catch((error: unknown) => {
      const event = 'mint_info_not_stored';
      log.warn({ event, err: error, mintUrl }, 'could not store the info of a mint');
    });
    return result;
  }
}
