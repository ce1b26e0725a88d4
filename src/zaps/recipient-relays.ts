import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Event } from 'nostr-tools';
import type { RelayPool } from './relay-pool.ts';
import { normaliseRelayUrl } from './relay-url.ts';

/** People change their relays a few times a year. */
const FOUND_TTL_MS = 60 * 60_000;

/** The list may be new, or a relay back. */
const INCOMPLETE_TTL_MS = 60_000;

/** Clients wait for a name lookup; most relays answer at once. */
const TIMEOUT_MS = 2_000;

/** After the first list was found, a newer one on another relay is waited for. */
const NEWER_LIST_TIMEOUT_MS = 300;

/** Ten megabytes if every list is a long one. */
const MAX_CACHED = 5_000;

/** Looks up which relays recipients use (NIP-65) at the operator's relays, and caches the answers. */
export class RecipientRelays {
  readonly #pool: Pick<RelayPool, 'query'>;
  readonly #relays: readonly string[];
  readonly #allowPrivate: boolean;
  /** By public key. An expired list is served while it is looked up again. */
  readonly #cache: LRUCache<string, readonly string[]>;

  /**
   * @param parts.relays the operator's, normalised; without any, nothing is found
   * @param parts.allowPrivate see `normaliseRelayUrl`
   */
  constructor(parts: {
    pool: Pick<RelayPool, 'query'>;
    relays: readonly string[];
    allowPrivate: boolean;
    monotonicMs: () => number;
  }) {
    this.#pool = parts.pool;
    this.#relays = parts.relays;
    this.#allowPrivate = parts.allowPrivate;
    this.#cache = new LRUCache({
      max: MAX_CACHED,
      ttl: FOUND_TTL_MS,
      allowStale: true,
      perf: { now: parts.monotonicMs },
      fetchMethod: async (pubkey, known, { options }) => {
        const { list, isComplete } = await this.#lookUp(pubkey);
        options.ttl = list !== null && isComplete ? FOUND_TTL_MS : INCOMPLETE_TTL_MS;
        return list?.relays ?? (isComplete ? [] : (known ?? []));
      },
    });
  }

  /**
   * The relays where a recipient is found.
   *
   * @param pubkey hex
   * @returns none if the recipient published none, or the operator's relays did not answer in time
   */
  async of(pubkey: string): Promise<readonly string[]> {
    return this.#relays.length === 0 ? [] : ((await this.#cache.fetch(pubkey)) ?? []);
  }

  /** @returns the newest list, and whether every relay answered */
  async #lookUp(pubkey: string): Promise<{ list: RelayList | null; isComplete: boolean }> {
    const filter = { kinds: [RELAY_LIST_KIND], authors: [pubkey] };
    const lists: RelayList[] = [];
    const found = Promise.withResolvers<void>();
    const answers = this.#relays.map(async (url) => {
      const answer = await this.#pool.query(url, filter, TIMEOUT_MS);
      const options = { allowPrivate: this.#allowPrivate };
      const list = answer.outcome === 'found' ? readRelayList(answer.event, options) : null;
      if (list !== null) {
        lists.push(list);
        found.resolve();
      }
      return answer.outcome !== 'unanswered';
    });
    const all = Promise.all(answers).then((answered) => answered.every(Boolean));
    const late = found.promise.then(() => delay(NEWER_LIST_TIMEOUT_MS, false, { ref: false }));
    const isComplete = await Promise.race([all, late]);
    const [first, ...others] = lists;
    return { list: first === undefined ? null : others.reduce(newerList, first), isComplete };
  }
}

export const RELAY_LIST_KIND = 10_002;

/** NIP-65 recommends two to four. */
const MAX_RELAYS = 10;

export interface RelayList {
  /** Those that the user writes to: normalised, distinct, in the order of the list. */
  relays: string[];
  /** Unix seconds, by the user's clock. */
  createdAt: number;
  /** Of the event, hex. */
  id: string;
}

/**
 * Reads a relay list. Skips what is no relay, and relays that the user only reads from.
 *
 * @param event of {@link RELAY_LIST_KIND}, with a verified signature
 * @param options see {@link normaliseRelayUrl}
 */
export function readRelayList(
  { id, created_at, tags }: Pick<Event, 'id' | 'created_at' | 'tags'>,
  options: { allowPrivate: boolean },
): RelayList {
  return { relays: writtenRelays(tags, options), createdAt: created_at, id };
}

function writtenRelays(tags: string[][], options: { allowPrivate: boolean }): string[] {
  const relays = new Set<string>();
  for (const [name, url = '', marker = ''] of tags) {
    if (relays.size === MAX_RELAYS) {
      break;
    }
    const isWritten = name === 'r' && (marker === '' || marker === 'write');
    const relay = isWritten ? normaliseRelayUrl(url, options) : null;
    if (relay !== null) {
      relays.add(relay);
    }
  }
  return [...relays];
}

/** The newer of two lists of a user; of the same second, the one with the lower id (NIP-01). */
export function newerList(one: RelayList, other: RelayList): RelayList {
  if (one.createdAt !== other.createdAt) {
    return one.createdAt > other.createdAt ? one : other;
  }
  return one.id <= other.id ? one : other;
}
