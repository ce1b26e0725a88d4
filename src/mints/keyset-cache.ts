import { LRUCache } from 'lru-cache';
import type { Keyset, KeysetKeys } from './ecash.ts';
import type { EcashClient } from './ecash-client.ts';

/** Mints rotate keysets a few times a year. If a mint rejects an old keyset, the list is refreshed anyway. */
const KEYSETS_TTL_MS = 5 * 60_000;

/** Tokens with invented keysets cause refreshes, but Nutshell accepts only 60 requests a minute. */
const MIN_REFRESH_INTERVAL_MS = 5_000;

/** One list per mint. The treasury uses a single mint, which the operator rarely changes. */
const MAX_KEYSET_LISTS = 100;

/** The keys of a keyset take about 10 KB. */
const MAX_CACHED_KEYSETS = 500;

interface KeysetCacheDeps {
  client: Pick<EcashClient, 'readKeysets' | 'readKeys'>;
  /** Whether the keys belong to the keyset. The cache never returns keys that do not. */
  verifyKeys: (keyset: Keyset, keys: KeysetKeys) => boolean;
  monotonicMs: () => number;
}

/**
 * Caches the keysets of mints and their keys. Keys never expire, because a keyset's id is derived from them (NUT-02).
 * Concurrent callers share one request. The methods return null if the mint does not respond.
 */
export class KeysetCache {
  readonly #deps: KeysetCacheDeps;
  readonly #keysets: LRUCache<string, readonly Keyset[]>;
  readonly #lastRequests = new LRUCache<
    string,
    { sentAtMs: number; isPending: boolean; result: Promise<readonly Keyset[] | null> }
  >({ max: MAX_KEYSET_LISTS });
  readonly #keys: LRUCache<string, KeysetKeys, { mintUrl: string; keysetId: string }>;

  constructor(deps: KeysetCacheDeps) {
    const { client, verifyKeys, monotonicMs } = deps;
    this.#deps = deps;
    this.#keysets = new LRUCache({
      max: MAX_KEYSET_LISTS,
      ttl: KEYSETS_TTL_MS,
      ttlResolution: 0,
      perf: { now: monotonicMs },
    });
    this.#keys = new LRUCache({
      max: MAX_CACHED_KEYSETS,
      fetchMethod: async (_key, _known, { context: { mintUrl, keysetId } }) => {
        const keyset = (await this.getKeysets(mintUrl))?.find(({ id }) => id === keysetId);
        const result = keyset && (await client.readKeys(mintUrl, keysetId));
        const isValid = keyset && result?.outcome === 'found' && verifyKeys(keyset, result.keys);
        return isValid ? result.keys : undefined;
      },
    });
  }

  /** Returns a list that is at most 5 minutes old. */
  async getKeysets(mintUrl: string): Promise<readonly Keyset[] | null> {
    return this.#keysets.get(mintUrl) ?? (await this.#fetchKeysets(mintUrl));
  }

  /** Requests the list again, after a keyset was unknown or inactive. Returns the last list if it is recent. */
  async refreshKeysets(mintUrl: string): Promise<readonly Keyset[] | null> {
    const lastRequest = this.#lastRequests.get(mintUrl);
    const isRecent =
      lastRequest !== undefined &&
      this.#deps.monotonicMs() - lastRequest.sentAtMs < MIN_REFRESH_INTERVAL_MS;
    return await (isRecent ? lastRequest.result : this.#fetchKeysets(mintUrl));
  }

  /** Returns the keys of a keyset that the mint lists. Also returns null if the keys do not match the keyset's id. */
  async getKeys(mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    const context = { mintUrl, keysetId };
    return (await this.#keys.fetch(`${keysetId} ${mintUrl}`, { context })) ?? null;
  }

  #fetchKeysets(mintUrl: string): Promise<readonly Keyset[] | null> {
    const lastRequest = this.#lastRequests.get(mintUrl);
    if (lastRequest?.isPending === true) {
      return lastRequest.result;
    }
    const { client, monotonicMs } = this.#deps;
    const result = client.readKeysets(mintUrl).then((response) => {
      if (response.outcome !== 'found') {
        return null;
      }
      this.#keysets.set(mintUrl, response.keysets);
      return response.keysets;
    });
    const request = { sentAtMs: monotonicMs(), isPending: true, result };
    this.#lastRequests.set(mintUrl, request);
    return result.finally(() => {
      request.isPending = false;
    });
  }
}
