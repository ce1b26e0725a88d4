import { setTimeout as delay } from 'node:timers/promises';
import type { Event, Filter } from 'nostr-tools';
import { NEWEST_EVENT_LIMITS } from './limits.ts';
import type { RelayPool } from './relay-pool.ts';

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
