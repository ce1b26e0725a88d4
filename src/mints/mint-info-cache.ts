import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';
import type { MintClient } from './mint-client.ts';
import type { MintInfo } from './mint-info.ts';

/** Mints rarely change what they offer, and reject quotes that they no longer support. */
const INFO_TTL_MS = 5 * 60_000;

/** How long a failure is cached, so that a dead mint does not delay every payer. */
const FAILURE_TTL_MS = 15_000;

/** Far more mints than are in use at a time. Users can name any number. */
const MAX_CACHED_MINTS = 5_000;

interface MintInfoCacheDeps {
  client: Pick<MintClient, 'readInfo'>;
  loadInfo: (mintUrl: string) => Promise<MintInfo | null>;
  /** Called when the info is new or has changed. */
  saveInfo: (mintUrl: string, info: MintInfo) => Promise<void>;
  monotonicMs: () => number;
  log: Pick<Logger, 'warn'>;
}

interface CacheEntry {
  /** The last known info; null if the mint never responded. */
  info: MintInfo | null;
  hasLastRequestSucceeded: boolean;
  /** On the monotonic clock. */
  refreshDueAtMs: number;
}

/**
 * Caches what mints offer (NUT-06). Returns stale info immediately and refreshes it in the background. After a
 * restart it uses stored info, so that invoices do not depend on a mint's `/v1/info`.
 */
export class MintInfoCache {
  readonly #deps: MintInfoCacheDeps;
  readonly #entries = new LRUCache<string, CacheEntry>({ max: MAX_CACHED_MINTS });
  readonly #pendingRequests = new Map<string, Promise<MintInfo | null>>();

  constructor(deps: MintInfoCacheDeps) {
    this.#deps = deps;
  }

  /** Returns the last known info, or requests it; null if the server does not respond as a mint. */
  async get(mintUrl: string): Promise<MintInfo | null> {
    const entry = await this.#getEntry(mintUrl);
    if (this.#deps.monotonicMs() < entry.refreshDueAtMs) {
      return entry.info;
    }
    const refreshed = this.refresh(mintUrl);
    if (entry.info === null) {
      return await refreshed;
    }
    refreshed.catch((error: unknown) => {
      this.#deps.log.warn(
        { event: 'mint_info_refresh_failed', err: error, mintUrl },
        'could not refresh the info of a mint',
      );
    });
    return entry.info;
  }

  /** Returns info that is at most minutes old; null if the server does not respond as a mint. */
  async getFresh(mintUrl: string): Promise<MintInfo | null> {
    const entry = this.#entries.get(mintUrl);
    return entry?.hasLastRequestSucceeded && this.#deps.monotonicMs() < entry.refreshDueAtMs
      ? entry.info
      : await this.refresh(mintUrl);
  }

  /** Requests the info; concurrent callers share a request. Null if the server does not respond as a mint. */
  refresh(mintUrl: string): Promise<MintInfo | null> {
    return this.#pendingRequests.getOrInsertComputed(mintUrl, () =>
      this.#fetchInfo(mintUrl).finally(() => this.#pendingRequests.delete(mintUrl)),
    );
  }

  /** Returns the cached entry, or one with the stored info that is due for a refresh. */
  async #getEntry(mintUrl: string): Promise<CacheEntry> {
    let entry = this.#entries.get(mintUrl);
    if (entry === undefined) {
      const info = await this.#deps.loadInfo(mintUrl);
      entry = { info, hasLastRequestSucceeded: false, refreshDueAtMs: 0 };
      this.#entries.set(mintUrl, entry);
    }
    return entry;
  }

  async #fetchInfo(mintUrl: string): Promise<MintInfo | null> {
    const { client, saveInfo, monotonicMs, log } = this.#deps;
    const [previous, result] = await Promise.all([
      this.#getEntry(mintUrl),
      client.readInfo(mintUrl),
    ]);
    const info = result.outcome === 'found' ? result.info : null;
    this.#entries.set(mintUrl, {
      info: info ?? previous.info,
      hasLastRequestSucceeded: info !== null,
      refreshDueAtMs: monotonicMs() + (info === null ? FAILURE_TTL_MS : INFO_TTL_MS),
    });
    if (info !== null && !isDeepStrictEqual(info, previous.info)) {
      await saveInfo(mintUrl, info).catch((error: unknown) => {
        this.#entries.delete(mintUrl);
        log.warn(
          { event: 'mint_info_not_stored', err: error, mintUrl },
          'could not store the info of a mint; trying again later',
        );
      });
    }
    return info;
  }
}
