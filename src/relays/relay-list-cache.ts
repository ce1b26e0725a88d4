import { LRUCache } from 'lru-cache';
import type { Tags } from '../nostr/event-schema.ts';
import { RELAY_LIST_LIMITS } from './limits.ts';
import { findNewestEvent } from './newest-event.ts';
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
        const { relayPool, operatorRelays } = context;
        const filter = { kinds: [10_002], authors: [pubkey] };
        const { newest, isComplete } = await findNewestEvent(relayPool, operatorRelays, filter);
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

/** Returns the relays that the owner of a list writes to. */
export function parseWriteRelays(tags: Tags, options: { allowPrivateNetworks: boolean }): string[] {
  const relays = tags
    .slice(0, RELAY_LIST_LIMITS.maxParsedTags)
    .filter(([name, , marker = '']) => name === 'r' && ['', 'write'].includes(marker))
    .flatMap(([, url = '']) => normaliseRelayUrl(url, options) ?? []);
  return [...new Set(relays)].slice(0, RELAY_LIST_LIMITS.maxWriteRelays);
}
