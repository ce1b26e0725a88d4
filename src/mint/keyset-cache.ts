import { LRUCache } from 'lru-cache';
import type { Keyset, KeysetKeys } from '../domain/ecash.ts';
import type { EcashClient } from './ecash-client.ts';

/** Operators rotate keysets a few times a year; if the mint rejects an old one, the list is refreshed anyway. */
const FRESH_MS = 5 * 60_000;

/**
 * A refresh sooner than this after the last one is answered from the cache: tokens with made-up keysets
 * cause refreshes, and Nutshell accepts 60 requests a minute.
 */
const REFRESH_GAP_MS = 5_000;

/** Operators use one mint, and change it now and then. */
const MAX_MINTS = 100;

/** About 10 KB each. */
const MAX_KEYS = 500;

interface KeysetCacheParts {
  client: Pick<EcashClient, 'readKeysets' | 'readKeys'>;
  /** Whether keys belong to a keyset; others are never returned. */
  verify: (keyset: Keyset, keys: KeysetKeys) => boolean;
  monotonicMs: () => number;
}

/**
 * Caches the keysets of mints, and their keys. The list of keysets is refreshed every few minutes; keys
 * never change, because a keyset's id is derived from them (NUT-02). Concurrent callers share one request.
 */
export class KeysetCache {
  readonly #keysets: LRUCache<string, readonly Keyset[]>;
  readonly #keys: LRUCache<string, KeysetKeys, { mintUrl: string; keysetId: string }>;

  constructor({ client, verify, monotonicMs }: KeysetCacheParts) {
    this.#keysets = new LRUCache<string, readonly Keyset[]>({
      max: MAX_MINTS,
      ttl: FRESH_MS,
      ttlResolution: 0,
      perf: { now: monotonicMs },
      fetchMethod: async (mintUrl) => {
        const answer = await client.readKeysets(mintUrl);
        return answer.outcome === 'found' ? answer.keysets : undefined;
      },
    });
    this.#keys = new LRUCache({
      max: MAX_KEYS,
      fetchMethod: async (_key, _known, { context: { mintUrl, keysetId } }) => {
        const keyset = (await this.keysets(mintUrl))?.find(({ id }) => id === keysetId);
        if (keyset === undefined) {
          return undefined;
        }
        const answer = await client.readKeys(mintUrl, keysetId);
        return answer.outcome === 'found' && verify(keyset, answer.keys) ? answer.keys : undefined;
      },
    });
  }

  /** Returns the list of the last minutes, or asks the mint; null if it does not answer. */
  async keysets(mintUrl: string): Promise<readonly Keyset[] | null> {
    return (await this.#keysets.fetch(mintUrl)) ?? null;
  }

  /**
   * Asks the mint, unless that was done a moment ago: when a token uses an unknown keyset, or the mint
   * reports that one is inactive.
   *
   * @returns null if it does not answer, whatever was known before
   */
  async refresh(mintUrl: string): Promise<readonly Keyset[] | null> {
    const ageMs = FRESH_MS - this.#keysets.getRemainingTTL(mintUrl);
    const forceRefresh = ageMs >= REFRESH_GAP_MS;
    return (await this.#keysets.fetch(mintUrl, { forceRefresh })) ?? null;
  }

  /** Returns the keys of a keyset that the mint lists; null if the mint gives none, or wrong ones. */
  async keys(mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    const context = { mintUrl, keysetId };
    return (await this.#keys.fetch(`${keysetId} ${mintUrl}`, { context })) ?? null;
  }
}
