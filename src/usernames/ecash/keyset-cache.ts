import { LRUCache } from 'lru-cache';
import type { Keyset, KeysetKeys } from '../../mints/ecash.ts';
import type { EcashClient } from '../../mints/ecash-client.ts';
import { verifyKeysetKeys } from './proofs.ts';

/**
 * Caches the keysets of mints and their keys. Keys never expire, because a keyset's id is derived from them (NUT-02).
 * Concurrent callers share one request. The methods return null if the mint does not respond.
 */
export class KeysetCache {
  readonly #lists: LRUCache<string, { keysets: readonly Keyset[]; fetchedAtMs: number }>;
  readonly #keys: LRUCache<string, KeysetKeys, { mintUrl: string; keysetId: string }>;
  readonly #monotonicMs: () => number;

  constructor(client: EcashClient, monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
    this.#lists = new LRUCache({
      max: 100,
      fetchMethod: async (mintUrl, known) => {
        const response = await client.readKeysets(mintUrl);
        return response.outcome === 'found'
          ? { keysets: response.keysets, fetchedAtMs: monotonicMs() }
          : known;
      },
    });
    this.#keys = new LRUCache({
      max: 500,
      fetchMethod: async (_key, _known, { context: { mintUrl, keysetId } }) => {
        const keyset = (await this.getKeysets(mintUrl))?.find(({ id }) => id === keysetId);
        const result = keyset && (await client.readKeys(mintUrl, keysetId));
        return keyset && result?.outcome === 'found' && verifyKeysetKeys(keyset, result.keys)
          ? result.keys
          : undefined;
      },
    });
  }

  /** @param shouldRefresh after a keyset was unknown or inactive. Bounded, because any invented keyset is unknown */
  async getKeysets(mintUrl: string, shouldRefresh = false): Promise<readonly Keyset[] | null> {
    const maxAgeMs = shouldRefresh ? 5_000 : 5 * 60_000;
    const isRecent = (fetchedAtMs = Number.NEGATIVE_INFINITY) =>
      this.#monotonicMs() - fetchedAtMs < maxAgeMs;
    const known = this.#lists.get(mintUrl);
    const list = isRecent(known?.fetchedAtMs)
      ? known
      : await this.#lists.fetch(mintUrl, { forceRefresh: true });
    return list !== undefined && isRecent(list.fetchedAtMs) ? list.keysets : null;
  }

  /** Also returns null if the mint does not list the keyset, or the keys do not match its id. */
  async getKeys(mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    const context = { mintUrl, keysetId };
    return (await this.#keys.fetch(`${keysetId} ${mintUrl}`, { context })) ?? null;
  }
}
