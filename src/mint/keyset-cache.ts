import type { Clock } from '../domain/clock.ts';
import type { Keyset, KeysetKeys } from '../domain/ecash.ts';
import type { EcashClient } from './ecash-client.ts';
import { single } from './single-flight.ts';

/**
 * Keysets change when an operator rotates them, a few times a year; what a mint refuses by an old one
 * is noticed and refreshed anyway.
 */
const FRESH_FOR_MS = 5 * 60_000;

/**
 * A refresh sooner than this after the last one is answered by that one: strangers bring about
 * refreshes, with tokens of made-up keysets, and Nutshell takes 60 requests a minute.
 */
export const REFRESH_GAP_MS = 5_000;

/** How long a failed question counts as the answer, so that a dead mint does not stall every buyer. */
const FAILURE_COUNTS_FOR_MS = 5_000;

/** Operators use one mint, and change it now and then. */
const MAX_MINTS = 100;

/** Some 10 KB each. */
const MAX_KEPT_KEYS = 500;

interface Listing {
  keysets: readonly Keyset[];
  /** Milliseconds since 1970. */
  heardAt: number;
}

/**
 * The keysets of mints and their keys, without asking at every token. The list is refreshed every few
 * minutes; keys are kept for good, because a keyset's id follows from them (NUT-02).
 */
export class KeysetCache {
  readonly #client: Pick<EcashClient, 'readKeysets' | 'readKeys'>;
  readonly #verify: (keyset: Keyset, keys: KeysetKeys) => boolean;
  readonly #clock: Clock;
  /** Of these maps, what was touched the longest ago comes first. */
  readonly #listings = new Map<string, Listing>();
  readonly #listingFailedAt = new Map<string, number>();
  readonly #keys = new Map<string, KeysetKeys>();
  readonly #keysFailedAt = new Map<string, number>();
  readonly #listing = new Map<string, Promise<readonly Keyset[] | null>>();
  readonly #reading = new Map<string, Promise<KeysetKeys | null>>();

  /** @param parts.verify whether keys are those of a keyset: no others are ever handed out */
  constructor(parts: {
    client: Pick<EcashClient, 'readKeysets' | 'readKeys'>;
    verify: (keyset: Keyset, keys: KeysetKeys) => boolean;
    clock: Clock;
  }) {
    this.#client = parts.client;
    this.#verify = parts.verify;
    this.#clock = parts.clock;
  }

  /** @returns what the mint said within the last minutes, else says now; null where it does not */
  async keysets(mintUrl: string): Promise<readonly Keyset[] | null> {
    return this.#heardWithin(mintUrl, FRESH_FOR_MS) ?? (await this.#ask(mintUrl));
  }

  /**
   * Asks the mint itself, where that was not done a moment ago: as when a token names a keyset that is
   * not known, or the mint says that one is inactive.
   *
   * @returns null where it does not answer, whatever was known before
   */
  async refresh(mintUrl: string): Promise<readonly Keyset[] | null> {
    return this.#heardWithin(mintUrl, REFRESH_GAP_MS) ?? (await this.#ask(mintUrl));
  }

  /** Whether what is known was heard at this time or later (milliseconds since 1970). */
  hasHeardSince(mintUrl: string, sinceMs: number): boolean {
    const listing = this.#listings.get(mintUrl);
    return listing !== undefined && listing.heardAt >= sinceMs;
  }

  /**
   * The keys of a keyset that the mint lists.
   *
   * @returns null where it does not list it, does not tell its keys, or tells others
   */
  async keys(mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    const key = `${keysetId} ${mintUrl}`;
    const kept = this.#keys.get(key);
    if (kept !== undefined) {
      keepNewest(this.#keys, key, kept, MAX_KEPT_KEYS);
      return kept;
    }
    return single(this.#reading, key, () => this.#read(key, mintUrl, keysetId));
  }

  async #read(key: string, mintUrl: string, keysetId: string): Promise<KeysetKeys | null> {
    if (this.#isWithin(FAILURE_COUNTS_FOR_MS, this.#keysFailedAt.get(key))) {
      return null;
    }
    const keyset = (await this.keysets(mintUrl))?.find(({ id }) => id === keysetId);
    if (keyset === undefined) {
      return null;
    }
    const answer = await this.#client.readKeys(mintUrl, keysetId);
    if (answer.outcome !== 'found' || !this.#verify(keyset, answer.keys)) {
      keepNewest(this.#keysFailedAt, key, this.#clock(), MAX_KEPT_KEYS);
      return null;
    }
    keepNewest(this.#keys, key, answer.keys, MAX_KEPT_KEYS);
    this.#keysFailedAt.delete(key);
    return answer.keys;
  }

  #heardWithin(mintUrl: string, ms: number): readonly Keyset[] | null {
    const listing = this.#listings.get(mintUrl);
    return listing !== undefined && this.#isWithin(ms, listing.heardAt) ? listing.keysets : null;
  }

  async #ask(mintUrl: string): Promise<readonly Keyset[] | null> {
    if (this.#isWithin(FAILURE_COUNTS_FOR_MS, this.#listingFailedAt.get(mintUrl))) {
      return null;
    }
    return single(this.#listing, mintUrl, async () => {
      const answer = await this.#client.readKeysets(mintUrl);
      if (answer.outcome !== 'found') {
        keepNewest(this.#listingFailedAt, mintUrl, this.#clock(), MAX_MINTS);
        return null;
      }
      const { keysets } = answer;
      keepNewest(this.#listings, mintUrl, { keysets, heardAt: this.#clock() }, MAX_MINTS);
      return keysets;
    });
  }

  /** Where the clock was set back, nothing counts as young. */
  #isWithin(ms: number, time: number | undefined): boolean {
    const now = this.#clock();
    return time !== undefined && now >= time && now - time < ms;
  }
}

function keepNewest<T>(map: Map<string, T>, key: string, value: T, limit: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > limit && oldest !== undefined) {
    map.delete(oldest);
  }
}
