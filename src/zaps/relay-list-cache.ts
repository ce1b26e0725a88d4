import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Event } from 'nostr-tools';
import type { RelayPool } from './relay-pool.ts';
import { normaliseRelayUrl } from './zap-request.ts';

/** How long a relay list is cached. Users change their relays a few times a year. */
const FOUND_TTL_MS = 60 * 60_000;

/** Used if no list was found or not all relays responded. Short, because the user may soon publish a list. */
const INCOMPLETE_TTL_MS = 60_000;

/** Short, because NIP-05 responses contain the relays and wait for the lookup. */
const QUERY_TIMEOUT_MS = 2_000;

/** After the first list was found, how long to wait for a newer list from another relay. */
const NEWER_LIST_GRACE_MS = 300;

/** A full cache uses about ten megabytes if all lists are long. */
const MAX_CACHED_LISTS = 5_000;

interface RelayListCacheDeps {
  pool: Pick<RelayPool, 'query'>;
  /** Normalised URLs. */
  operatorRelays: readonly string[];
  allowPrivateNetworks: boolean;
  monotonicMs: () => number;
}

/** Looks up the relay lists of recipients (NIP-65) at the operator's relays, and caches them. */
export class RelayListCache {
  readonly #deps: RelayListCacheDeps;
  /** Write relays by public key. Returns an expired list while it fetches a new list. */
  readonly #cache: LRUCache<string, readonly string[]>;

  constructor(deps: RelayListCacheDeps) {
    this.#deps = deps;
    this.#cache = new LRUCache({
      max: MAX_CACHED_LISTS,
      ttl: FOUND_TTL_MS,
      allowStale: true,
      perf: { now: deps.monotonicMs },
      fetchMethod: async (pubkey, cached, { options }) => {
        const { list, isComplete } = await this.#fetchNewestList(pubkey);
        options.ttl = list !== null && isComplete ? FOUND_TTL_MS : INCOMPLETE_TTL_MS;
        return list?.writeRelays ?? (isComplete ? [] : (cached ?? []));
      },
    });
  }

  /**
   * Returns the relays that a recipient writes to; none if no list was found in time.
   *
   * @param pubkey hex
   */
  async findWriteRelays(pubkey: string): Promise<readonly string[]> {
    return (await this.#cache.fetch(pubkey)) ?? [];
  }

  /** @returns `isComplete`: whether every relay responded in time */
  async #fetchNewestList(pubkey: string): Promise<{ list: RelayList | null; isComplete: boolean }> {
    const { pool, operatorRelays, allowPrivateNetworks } = this.#deps;
    const filter = { kinds: [RELAY_LIST_KIND], authors: [pubkey] };
    const lists: RelayList[] = [];
    const firstFound = Promise.withResolvers<void>();
    const queries = operatorRelays.map(async (url) => {
      const result = await pool.query(url, filter, QUERY_TIMEOUT_MS);
      if (result.outcome === 'found') {
        lists.push(parseRelayList(result.event, { allowPrivateNetworks }));
        firstFound.resolve();
      }
      return result.outcome !== 'no_response';
    });
    const allResponded = Promise.all(queries).then((responded) => responded.every(Boolean));
    const graceElapsed = firstFound.promise.then(() =>
      delay(NEWER_LIST_GRACE_MS, false, { ref: false }),
    );
    const isComplete = await Promise.race([allResponded, graceElapsed]);
    const list = lists.length === 0 ? null : lists.reduce(newerRelayList);
    return { list, isComplete };
  }
}

const RELAY_LIST_KIND = 10_002;

/** NIP-65 recommends two to four. */
const MAX_WRITE_RELAYS = 10;

/** The tags of a relay list that are parsed. Each URL takes up to 15 µs. */
const MAX_PARSED_TAGS = 100;

export interface RelayList {
  /** Normalised URLs without duplicates, in the order of the list. */
  writeRelays: string[];
  /** Unix seconds. */
  createdAt: number;
  /** Hex. */
  eventId: string;
}

/** Parses a verified relay list event. Skips invalid URLs and relays that the user only reads from. */
export function parseRelayList(
  { id, created_at, tags }: Pick<Event, 'id' | 'created_at' | 'tags'>,
  options: { allowPrivateNetworks: boolean },
): RelayList {
  const relays = new Set<string>();
  for (const [name, url = '', marker = ''] of tags.slice(0, MAX_PARSED_TAGS)) {
    if (relays.size === MAX_WRITE_RELAYS) {
      break;
    }
    const isWriteRelay = name === 'r' && (marker === '' || marker === 'write');
    const relay = isWriteRelay ? normaliseRelayUrl(url, options) : null;
    if (relay !== null) {
      relays.add(relay);
    }
  }
  return { writeRelays: [...relays], createdAt: created_at, eventId: id };
}

/** Returns the newer of two lists. Of lists of the same second, that with the lower id counts (NIP-01). */
export function newerRelayList(one: RelayList, other: RelayList): RelayList {
  if (one.createdAt !== other.createdAt) {
    return one.createdAt > other.createdAt ? one : other;
  }
  return one.eventId <= other.eventId ? one : other;
}
