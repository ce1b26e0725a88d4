import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';
import type { MintClient } from './mint-client.ts';
import type { MintInfo } from './mint-info.ts';

/** Old info does little harm: mints rarely change what they support, and reject quotes that they do not support. */
const INFO_TTL_MS = 5 * 60_000;

/** Unchanged info is stored again after this time. Mints whose info is old are deleted as unused. */
const STORE_INTERVAL_MS = 24 * 60 * 60_000;

/**
 * When info is requested again from a mint whose last known info is used meanwhile, and from a server that responded, but
 * not as a mint. Other failures are not cached: the next payer of a mint without known info may be luckier, and the
 * rate limiter pauses a route that keeps failing.
 */
const FAILURE_TTL_MS = 15_000;

/** Far more mints than are in use at a time. Users could otherwise fill the memory by naming mints. */
const MAX_CACHED_MINTS = 5_000;

interface MintInfoCacheOptions {
  client: Pick<MintClient, 'readInfo'>;
  loadInfo: (mintUrl: string) => Promise<MintInfo | null>;
  /** Called when the info is new or has changed, and daily. */
  saveInfo: (mintUrl: string, info: MintInfo) => Promise<void>;
  monotonicMs: () => number;
  log: Pick<Logger, 'warn'>;
}

interface CacheEntry {
  /** The last known info; null if the mint has never sent any. */
  info: MintInfo | null;
  hasLastRequestSucceeded: boolean;
  /** When this process last stored the info, on the monotonic clock. */
  storedAtMs: number;
  /** On the monotonic clock. */
  refreshDueAtMs: number;
}

/**
 * Caches the info of mints, which lists what they support (NUT-06). Returns stale info immediately and refreshes it
 * in the background. After a restart, uses stored info, so that invoices do not depend on a mint's `/v1/info`.
 */
export class MintInfoCache {
  readonly #deps: MintInfoCacheOptions;
  readonly #entries = new LRUCache<string, CacheEntry>({ max: MAX_CACHED_MINTS });
  readonly #pendingRequests = new Map<string, Promise<MintInfo | null>>();

  constructor(deps: MintInfoCacheOptions) {
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

  /** Returns the last known info without a request; null if the mint has never sent any. */
  async getKnown(mintUrl: string): Promise<MintInfo | null> {
    return (await this.#getEntry(mintUrl)).info;
  }

  /** Returns info that is at most 5 minutes old; null if the server does not respond as a mint. */
  async getFresh(mintUrl: string): Promise<MintInfo | null> {
    const entry = this.#entries.get(mintUrl);
    return entry?.hasLastRequestSucceeded && this.#deps.monotonicMs() < entry.refreshDueAtMs
      ? entry.info
      : await this.refresh(mintUrl);
  }

  /** Requests the info. Concurrent callers share a request. Returns null if the server does not respond as a mint. */
  refresh(mintUrl: string): Promise<MintInfo | null> {
    return this.#pendingRequests.getOrInsertComputed(mintUrl, () =>
      this.#fetchInfo(mintUrl).finally(() => this.#pendingRequests.delete(mintUrl)),
    );
  }

  /** Returns the cached entry. If there is none, caches the stored info as an entry that is due for a refresh. */
  async #getEntry(mintUrl: string): Promise<CacheEntry> {
    let entry = this.#entries.get(mintUrl);
    if (entry === undefined) {
      const info = await this.#deps.loadInfo(mintUrl);
      entry = {
        info,
        hasLastRequestSucceeded: false,
        storedAtMs: Number.NEGATIVE_INFINITY,
        refreshDueAtMs: 0,
      };
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
    const nowMs = monotonicMs();
    const isFailureCached = previous.info !== null || result.outcome === 'invalid';
    const failureTtlMs = isFailureCached ? FAILURE_TTL_MS : 0;
    const isStoredInfoOutdated =
      nowMs >= previous.storedAtMs + STORE_INTERVAL_MS || !isDeepStrictEqual(info, previous.info);
    const shouldStore = info !== null && isStoredInfoOutdated;
    this.#entries.set(mintUrl, {
      info: info ?? previous.info,
      hasLastRequestSucceeded: info !== null,
      storedAtMs: shouldStore ? nowMs : previous.storedAtMs,
      refreshDueAtMs: nowMs + (info === null ? failureTtlMs : INFO_TTL_MS),
    });
    if (shouldStore) {
      await saveInfo(mintUrl, info).catch((error: unknown) => {
        // The next refresh stores the info.
        this.#entries.set(mintUrl, {
          info,
          hasLastRequestSucceeded: true,
          storedAtMs: Number.NEGATIVE_INFINITY,
          refreshDueAtMs: nowMs + FAILURE_TTL_MS,
        });
        log.warn(
          { event: 'mint_info_not_stored', err: error, mintUrl },
          'could not store the info of a mint; trying again later',
        );
      });
    }
    return info;
  }
}
