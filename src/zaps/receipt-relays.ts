import { KeyedCounter } from '../keyed-counter.ts';
import type { Tags } from '../nostr/event-schema.ts';
import { normaliseRelayUrl } from '../relays/relay-url.ts';
import { RECEIPT_RELAY_LIMITS } from './limits.ts';

/** Returns the usable relays of a zap request. If private networks are allowed, each port of a host counts as a host. */
export function extractReceiptRelays(
  tags: Tags,
  options: { allowPrivateNetworks: boolean },
): string[] {
  const [, ...listed] = tags.find(([name]) => name === 'relays') ?? [];
  const relays = listed
    .slice(0, RECEIPT_RELAY_LIMITS.maxListed)
    .flatMap((relay) => normaliseRelayUrl(relay, options) ?? []);
  const relaysByHost = new KeyedCounter();
  return [...new Set(relays)]
    .filter((relay) => {
      const { host, hostname } = new URL(relay);
      const hostKey = options.allowPrivateNetworks ? host : hostname;
      relaysByHost.increment(hostKey);
      return relaysByHost.get(hostKey) <= RECEIPT_RELAY_LIMITS.maxPerHost;
    })
    .slice(0, RECEIPT_RELAY_LIMITS.max);
}
