import { LRUCache } from 'lru-cache';
import type { Keyset, KeysetKeys } from '../../mints/ecash.ts';
import type { EcashClient } from '../../mints/ecash-client.ts';
import { verifyKeysetKeys } from './proofs.ts';

/** Caches the keysets of mints, and their keys. Returns null if the mint does not respond. Callers share requests. */
export class KeysetCache {
  readonly #lists: LRUCache<string, { keysets: readonly Keyset[]; fetchedAtMs: number }>;
  readonly #keys: LRUCache<string, KeysetKeys, { mintUrl: string; keysetId: string }>;
  readonly #monotonicMs: () => number;

  constructor(client: EcashClient, monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
    this.#lists = new LRUCache({
      max: 100,
      // If the mint does not respond, its old list stays.
      fetchMethod: async (mintUrl, oldList) => {
        const response = await client.readKeysets(mintUrl);
        return response.outcome === 'found'
          ? { keysets: response.keysets, fetchedAtMs: monotonicMs() }
          : oldList;
      },
    });
    // Keys never expire, because a keyset's id is derived from them (NUT-02).
    this.#keys = new LRUCache({
      max: 500,
      fetchMethod: async (_key, _oldKeys, { context: { mintUrl, keysetId } }) => {
        const keysets = await this.getKeysets(mintUrl);
        const keyset = keysets?.find(({ id }) => id === keysetId);
        if (keyset === undefined) {
          return undefined;
        }
        const response = await client.readKeys(mintUrl, keysetId);
        return response.outcome === 'found' && verifyKeysetKeys(keyset, response.keys)
          ? response.keys
          : undefined;
      },
    });
  }

  async getKeysets(mintUrl: string, maxAgeMs = 5 * 60_000): Promise<readonly Keyset[] | null> {
    const isRecent = (fetchedAtMs: number) => this.#monotonicMs() - fetchedAtMs < maxAgeMs;
    const cached = this.#lists.get(mintUrl);
    if (cached !== undefined && isRecent(cached.fetchedAtMs)) {
      return cached.keysets;
    }
    const refreshed = await this.#lists.fetch(mintUrl, { forceRefresh: true });
    return refreshed !== undefined && isRecent(refreshed.fetchedAtMs) ? refreshed.keysets : null;
  }

  /** Call this only if a token or the mint contradicts the cached keysets. They are then up to 5 s old. */
  getFreshKeysets(mintUrl: string): Promise<readonly Keyset[] | null> {
    return this.getKeysets(mintUrl, 5_000);
  }

  /** Also returns null if the mint does not list the keyset, or the keys do not match its id. */
  async getKeys(mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    const context = { mintUrl, keysetId };
    return (await this.#keys.fetch(`${keysetId} ${mintUrl}`, { context })) ?? null;
  }
}
