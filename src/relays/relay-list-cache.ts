import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Event, Filter } from 'nostr-tools';
import type { Tags } from '../nostr/event-schema.ts';
import { NEWEST_EVENT_LIMITS, RELAY_LIST_LIMITS } from './limits.ts';
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

/**
 * Asks several relays for the newest event that matches a filter, and verifies it.
 *
 * @returns `newest`: undefined if there is none; `isComplete`: whether every relay responded in time
 */
export async function findNewestEvent(
  relayPool: Pick<RelayPool, 'query'>,
  relays: readonly string[],
  filter: Filter,
): Promise<{ newest: Event | undefined; isComplete: boolean }> {
  const events: Event[] = [];
  const firstFound = Promise.withResolvers<void>();
  const queries = relays.map(async (url) => {
    const result = await relayPool.query(url, filter, NEWEST_EVENT_LIMITS.queryTimeoutMs);
    if (result.outcome === 'found') {
      events.push(result.event);
      firstFound.resolve();
    }
    return result.outcome !== 'no_response';
  });
  const isComplete = await Promise.race([
    Promise.all(queries).then((responded) => responded.every(Boolean)),
    firstFound.promise.then(() => delay(NEWEST_EVENT_LIMITS.graceMs, false, { ref: false })),
  ]);
  // If two events have the same time, the one with the lower id counts as newer (NIP-01).
  events.sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? -1 : 1));
  return { newest: events[0], isComplete };
}
