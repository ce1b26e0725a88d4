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

/** How long a failure counts as the answer, so that a dead mint does not delay every buyer. */
const FAILURE_MS = 5_000;

/** Operators use one mint, and change it now and then. */
const MAX_MINTS = 100;

/** About 10 KB each. */
const MAX_KEYS = 500;

interface Listing {
  keysets: readonly Keyset[];
  /** On the monotonic clock. */
  heardAtMs: number;
}

interface KeysetCacheParts {
  client: Pick<EcashClient, 'readKeysets' | 'readKeys'>;
  /** Whether keys belong to a keyset; others are never returned. */
  verify: (keyset: Keyset, keys: KeysetKeys) => boolean;
  monotonicMs: () => number;
}

/**
 * Caches the keysets of mints, and their keys. The list of keysets is refreshed every few minutes; keys
 * never change, because a keyset's id is derived from them (NUT-02).
 */
export class KeysetCache {
  readonly #parts: KeysetCacheParts;
  readonly #listings = new LRUCache<string, Listing>({ max: MAX_MINTS });
  readonly #keys = new LRUCache<string, KeysetKeys>({ max: MAX_KEYS });
  readonly #requests = new Map<string, Promise<unknown>>();
  readonly #failedAtMs = new LRUCache<string, number>({ max: MAX_MINTS + MAX_KEYS });

  constructor(parts: KeysetCacheParts) {
    this.#parts = parts;
  }

  /** Returns the list of the last minutes, or asks the mint; null if it does not answer. */
  async keysets(mintUrl: string): Promise<readonly Keyset[] | null> {
    return this.#listedWithin(mintUrl, FRESH_MS) ?? (await this.#list(mintUrl));
  }

  /**
   * Asks the mint, unless that was done a moment ago: when a token uses an unknown keyset, or the mint
   * reports that one is inactive.
   *
   * @returns null if it does not answer, whatever was known before
   */
  async refresh(mintUrl: string): Promise<readonly Keyset[] | null> {
    return this.#listedWithin(mintUrl, REFRESH_GAP_MS) ?? (await this.#list(mintUrl));
  }

  /** Returns the keys of a keyset that the mint lists; null if the mint gives none, or wrong ones. */
  async keys(mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    const key = `${keysetId} ${mintUrl}`;
    const known = this.#keys.get(key);
    return known ?? (await this.#once(key, () => this.#readKeys(key, mintUrl, keysetId)));
  }

  async #readKeys(key: string, mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    const keyset = (await this.keysets(mintUrl))?.find(({ id }) => id === keysetId);
    if (keyset === undefined) {
      return null;
    }
    const answer = await this.#parts.client.readKeys(mintUrl, keysetId);
    if (answer.outcome !== 'found' || !this.#parts.verify(keyset, answer.keys)) {
      return null;
    }
    this.#keys.set(key, answer.keys);
    return answer.keys;
  }

  #listedWithin(mintUrl: string, ms: number): readonly Keyset[] | null {
    const { keysets, heardAtMs } = this.#listings.get(mintUrl) ?? {};
    return keysets !== undefined && this.#isWithin(ms, heardAtMs) ? keysets : null;
  }

  #list(mintUrl: string): Promise<readonly Keyset[] | null> {
    return this.#once(mintUrl, async () => {
      const answer = await this.#parts.client.readKeysets(mintUrl);
      if (answer.outcome !== 'found') {
        return null;
      }
      const { keysets } = answer;
      this.#listings.set(mintUrl, { keysets, heardAtMs: this.#parts.monotonicMs() });
      return keysets;
    });
  }

  /** Sends a request once for all concurrent callers, and not again soon after it failed. */
  async #once<Result>(key: string, send: () => Promise<Result | null>): Promise<Result | null> {
    if (this.#isWithin(FAILURE_MS, this.#failedAtMs.get(key))) {
      return null;
    }
    const request = this.#requests.get(key) ?? send().finally(() => this.#requests.delete(key));
    this.#requests.set(key, request);
    const result = (await request) as Result | null;
    if (result === null) {
      this.#failedAtMs.set(key, this.#parts.monotonicMs());
    }
    return result;
  }

  #isWithin(ms: number, timeMs = Number.NEGATIVE_INFINITY): boolean {
    return this.#parts.monotonicMs() - timeMs < ms;
  }
}
