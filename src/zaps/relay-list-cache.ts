import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Event } from 'nostr-tools';
import {
  FOUND_LIST_TTL_MS,
  INCOMPLETE_LIST_TTL_MS,
  LIST_QUERY_TIMEOUT_MS,
  MAX_CACHED_LISTS,
  MAX_PARSED_TAGS,
  MAX_WRITE_RELAYS,
  NEWER_LIST_GRACE_MS,
} from './limits.ts';
import type { RelayPool } from './relay-pool.ts';
import { normaliseRelayUrl } from './relay-url.ts';

interface RelayListContext {
  relayPool: Pick<RelayPool, 'query'>;
  operatorRelays: readonly string[];
  allowPrivateNetworks: boolean;
  monotonicMs: () => number;
}

export class RelayListCache {
  readonly #context: RelayListContext;
  /** Write relays by public key. Returns an expired list while it fetches a new list. */
  readonly #cache: LRUCache<string, readonly string[]>;

  constructor(context: RelayListContext) {
    this.#context = context;
    this.#cache = new LRUCache({
      max: MAX_CACHED_LISTS,
      ttl: FOUND_LIST_TTL_MS,
      allowStale: true,
      perf: { now: context.monotonicMs },
      fetchMethod: async (pubkey, cached, { options }) => {
        const { newest, isComplete } = await this.#fetchNewestList(pubkey);
        const isFound = newest !== undefined && isComplete;
        options.ttl = isFound ? FOUND_LIST_TTL_MS : INCOMPLETE_LIST_TTL_MS;
        if (newest !== undefined) {
          return parseWriteRelays(newest.tags, context);
        }
        return isComplete ? [] : (cached ?? []);
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
  async #fetchNewestList(pubkey: string) {
    const { relayPool, operatorRelays } = this.#context;
    const filter = { kinds: [RELAY_LIST_KIND], authors: [pubkey] };
    const lists: Event[] = [];
    const firstFound = Promise.withResolvers<void>();
    const queries = operatorRelays.map(async (url) => {
      const result = await relayPool.query(url, filter, LIST_QUERY_TIMEOUT_MS);
      if (result.outcome === 'found') {
        lists.push(result.event);
        firstFound.resolve();
      }
      return result.outcome !== 'no_response';
    });
    const isComplete = await Promise.race([
      Promise.all(queries).then((responded) => responded.every(Boolean)),
      firstFound.promise.then(() => delay(NEWER_LIST_GRACE_MS, false, { ref: false })),
    ]);
    return { newest: lists.toSorted(compareNewestFirst)[0], isComplete };
  }
}

const RELAY_LIST_KIND = 10_002;

/** Returns the relays that the owner of a list writes to, normalised and without duplicates. Skips invalid URLs. */
export function parseWriteRelays(
  tags: Event['tags'],
  options: { allowPrivateNetworks: boolean },
): string[] {
  const relays = new Set<string>();
  for (const [name, url = '', marker = ''] of tags.slice(0, MAX_PARSED_TAGS)) {
    const isWriteRelay = name === 'r' && (marker === '' || marker === 'write');
    const relay = isWriteRelay ? normaliseRelayUrl(url, options) : null;
    if (relay !== null) {
      relays.add(relay);
    }
  }
  return [...relays].slice(0, MAX_WRITE_RELAYS);
}

/** Of lists of the same second, the one with the lower id counts as newer (NIP-01). */
function compareNewestFirst(one: Event, other: Event): number {
  return other.created_at - one.created_at || (one.id < other.id ? -1 : 1);
}
