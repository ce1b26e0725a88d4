import { LRUCache } from 'lru-cache';
import type { Keyset, KeysetKeys } from './ecash.ts';
import type { EcashClient } from './ecash-client.ts';

/** Operators rotate keysets a few times a year; if the mint rejects an old one, the list is refreshed anyway. */
const FRESH_MS = 5 * 60_000;

/**
 * A refresh sooner than this after the last request has the result of that one: tokens with made-up keysets
 * cause refreshes, and Nutshell accepts 60 requests a minute.
 */
const REFRESH_GAP_MS = 5_000;

/** Operators use one mint, and change it now and then. */
const MAX_MINTS = 100;

/** About 10 KB each. */
const MAX_KEYS = 500;

/** A request for the keysets of a mint; null if the mint did not answer. */
interface KeysetsRead {
  atMs: number;
  isPending: boolean;
  result: Promise<readonly Keyset[] | null>;
}

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
  readonly #parts: KeysetCacheParts;
  readonly #keysets: LRUCache<string, readonly Keyset[]>;
  readonly #lastReads = new LRUCache<string, KeysetsRead>({ max: MAX_MINTS });
  readonly #keys: LRUCache<string, KeysetKeys, { mintUrl: string; keysetId: string }>;

  constructor(parts: KeysetCacheParts) {
    const { client, verify, monotonicMs } = parts;
    this.#parts = parts;
    this.#keysets = new LRUCache({
      max: MAX_MINTS,
      ttl: FRESH_MS,
      ttlResolution: 0,
      perf: { now: monotonicMs },
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
    return this.#keysets.get(mintUrl) ?? (await this.#read(mintUrl));
  }

  /**
   * Asks the mint, unless that was done a moment ago: when a token uses an unknown keyset, or the mint
   * reports that one is inactive.
   *
   * @returns null if it does not answer, whatever was known before
   */
  async refresh(mintUrl: string): Promise<readonly Keyset[] | null> {
    const last = this.#lastReads.get(mintUrl);
    const isRecent = last !== undefined && this.#parts.monotonicMs() - last.atMs < REFRESH_GAP_MS;
    return await (isRecent ? last.result : this.#read(mintUrl));
  }

  /** Returns the keys of a keyset that the mint lists; null if the mint gives none, or wrong ones. */
  async keys(mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    const context = { mintUrl, keysetId };
    return (await this.#keys.fetch(`${keysetId} ${mintUrl}`, { context })) ?? null;
  }

  /** Asks the mint, once for concurrent callers. The cached list stays until there is another. */
  #read(mintUrl: string): Promise<readonly Keyset[] | null> {
    const last = this.#lastReads.get(mintUrl);
    if (last?.isPending === true) {
      return last.result;
    }
    const { client, monotonicMs } = this.#parts;
    const result = client.readKeysets(mintUrl).then((answer) => {
      if (answer.outcome !== 'found') {
        return null;
      }
      this.#keysets.set(mintUrl, answer.keysets);
      return answer.keysets;
    });
    const read = { atMs: monotonicMs(), isPending: true, result };
    this.#lastReads.set(mintUrl, read);
    return result.finally(() => {
      read.isPending = false;
    });
  }
}
