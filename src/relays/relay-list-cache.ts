import { LRUCache } from 'lru-cache';
import type { Tags } from '../nostr/event-schema.ts';
import { RELAY_LIST_LIMITS } from './limits.ts';
import { findNewestEvent } from './newest-event.ts';
import type { RelayPool } from './relay-pool.ts';
import { normaliseRelayUrl } from './relay-url.ts';

/** Of the events in which users list the relays that they publish to (NIP-65), or read private messages at (NIP-17). */
type RelayListKind = 10_002 | 10_050;

export interface RelayList {
  relays: readonly string[];
  /** False if no list was found, but a relay did not respond, so there may be one. */
  isKnown: boolean;
}

interface RelayListContext {
  kind: RelayListKind;
  relayPool: Pick<RelayPool, 'query'>;
  operatorRelays: readonly string[];
  /** Whether to return an expired list while fetching a new one. */
  allowStale: boolean;
  allowPrivateNetworks: boolean;
  monotonicMs: () => number;
}

/** Caches a list of recipients' relays, which it looks up at those of the operator. */
export class RelayListCache {
  readonly #cache: LRUCache<string, RelayList>;

  constructor(context: RelayListContext) {
    this.#cache = new LRUCache({
      max: RELAY_LIST_LIMITS.maxCached,
      allowStale: context.allowStale,
      perf: { now: context.monotonicMs },
      fetchMethod: async (pubkey, cached, { options }) => {
        const { kind, relayPool, operatorRelays } = context;
        const filter = { kinds: [kind], authors: [pubkey] };
        const { newest, isComplete } = await findNewestEvent(relayPool, operatorRelays, filter);
        options.ttl =
          newest && isComplete ? RELAY_LIST_LIMITS.foundTtlMs : RELAY_LIST_LIMITS.incompleteTtlMs;
        if (newest !== undefined) {
          return { relays: parseRelays(newest.tags, context), isKnown: true };
        }
        return isComplete || cached === undefined ? { relays: [], isKnown: isComplete } : cached;
      },
    });
  }

  async find(pubkey: string): Promise<RelayList> {
    return await this.#cache.forceFetch(pubkey);
  }
}

export function parseRelays(
  tags: Tags,
  options: Pick<RelayListContext, 'kind' | 'allowPrivateNetworks'>,
): string[] {
  const isListed = ([name, , marker = '']: readonly string[]) =>
    options.kind === 10_050 ? name === 'relay' : name === 'r' && ['', 'write'].includes(marker);
  const relays = tags
    .slice(0, RELAY_LIST_LIMITS.maxParsedTags)
    .filter(isListed)
    .flatMap(([, url = '']) => normaliseRelayUrl(url, options) ?? []);
  return [...new Set(relays)].slice(0, RELAY_LIST_LIMITS.maxRelays);
}
