import { LRUCache } from 'lru-cache';
import type { Keyset, KeysetKeys } from '../../mints/ecash.ts';
import type { EcashClient } from '../../mints/ecash-client.ts';
import { verifyKeysetKeys } from './proofs.ts';

/** Caches the keysets of mints, and their keys. Returns null if the mint does not respond. Callers share requests. */
export class KeysetCache {
  readonly #lists: LRUCache<string, Keyset[]>;
  readonly #keys: LRUCache<string, KeysetKeys, { mintUrl: string; keysetId: string }>;

  constructor(client: EcashClient, monotonicMs: () => number) {
    this.#lists = new LRUCache({
      max: 100,
      // Short, so that a list is never outdated for long: purchases are too rare for a longer time to save much.
      ttl: 5_000,
      ttlResolution: 0,
      perf: { now: monotonicMs },
      fetchMethod: async (mintUrl) => {
        const response = await client.readKeysets(mintUrl);
        return response.outcome === 'found' ? response.keysets : undefined;
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

  async getKeysets(mintUrl: string): Promise<readonly Keyset[] | null> {
    return (await this.#lists.fetch(mintUrl)) ?? null;
  }

  /** Also returns null if the mint does not list the keyset, or the keys do not match its id. */
  async getKeys(mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    const context = { mintUrl, keysetId };
    return (await this.#keys.fetch(`${keysetId} ${mintUrl}`, { context })) ?? null;
  }
}
