import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Event } from 'nostr-tools';
import type { Tags } from '../nostr/event-schema.ts';
import { RELAY_LIST_LIMITS } from './limits.ts';
import type { RelayPool } from './relay-pool.ts';
import { normaliseRelayUrl } from './relay-url.ts';

interface RelayListContext {
  relayPool: Pick<RelayPool, 'query'>;
  operatorRelays: readonly string[];
  allowPrivateNetworks: boolean;
  monotonicMs: () => number;
}

/** Caches the relays that recipients publish to (NIP-65). While it fetches a new list, returns the expired one. */
export class RelayListCache {
  readonly #cache: LRUCache<string, readonly string[]>;

  constructor(context: RelayListContext) {
    this.#cache = new LRUCache({
      max: RELAY_LIST_LIMITS.maxCached,
      allowStale: true,
      perf: { now: context.monotonicMs },
      fetchMethod: async (pubkey, cached, { options }) => {
        const { newest, isComplete } = await fetchNewestList(context, pubkey);
        options.ttl =
          newest && isComplete ? RELAY_LIST_LIMITS.foundTtlMs : RELAY_LIST_LIMITS.incompleteTtlMs;
        if (newest !== undefined) {
          return parseWriteRelays(newest.tags, context);
        }
        return isComplete ? [] : (cached ?? []);
      },
    });
  }

  async findWriteRelays(pubkey: string): Promise<readonly string[]> {
    return (await this.#cache.fetch(pubkey)) ?? [];
  }
}

/** @returns `isComplete`: whether every relay responded in time */
async function fetchNewestList({ relayPool, operatorRelays }: RelayListContext, pubkey: string) {
  const filter = { kinds: [10_002], authors: [pubkey] };
  const lists: Event[] = [];
  const firstFound = Promise.withResolvers<void>();
  const queries = operatorRelays.map(async (url) => {
    const result = await relayPool.query(url, filter, RELAY_LIST_LIMITS.queryTimeoutMs);
    if (result.outcome === 'found') {
      lists.push(result.event);
      firstFound.resolve();
    }
    return result.outcome !== 'no_response';
  });
  const isComplete = await Promise.race([
    Promise.all(queries).then((responded) => responded.every(Boolean)),
    firstFound.promise.then(() => delay(RELAY_LIST_LIMITS.newerListGraceMs, false, { ref: false })),
  ]);
  // If two lists have the same time, the one with the lower id counts as newer (NIP-01).
  lists.sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? -1 : 1));
  return { newest: lists[0], isComplete };
}

/** Returns the relays that the owner of a list writes to. */
export function parseWriteRelays(tags: Tags, options: { allowPrivateNetworks: boolean }): string[] {
  const relays = tags
    .slice(0, RELAY_LIST_LIMITS.maxParsedTags)
    .filter(([name, , marker = '']) => name === 'r' && ['', 'write'].includes(marker))
    .flatMap(([, url = '']) => normaliseRelayUrl(url, options) ?? []);
  return [...new Set(relays)].slice(0, RELAY_LIST_LIMITS.maxWriteRelays);
}
