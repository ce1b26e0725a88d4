import { KeyedCounter } from '../keyed-counter.ts';
import { isForbiddenHost } from '../net/public-address.ts';
import { normaliseServerUrl } from '../net/server-url.ts';
import type { Tags } from '../nostr/event-schema.ts';
import { RECEIPT_RELAY_LIMITS } from './limits.ts';

/**
 * Returns the one spelling of a relay's URL, so that all others share its connection. Keeps the query, with which some
 * relays identify their users. If private networks are allowed, also accepts ws:// and any port. Null: not a relay's URL.
 */
export function normaliseRelayUrl(
  untrustedText: string,
  { allowPrivateNetworks }: { allowPrivateNetworks: boolean },
): string | null {
  const url = normaliseServerUrl(untrustedText, {
    maxLength: RECEIPT_RELAY_LIMITS.maxUrlLength,
    scheme: 'ws',
    allowInsecure: allowPrivateNetworks,
  });
  const isForbidden =
    !allowPrivateNetworks && url !== null && isForbiddenHost(new URL(url).hostname);
  return isForbidden ? null : url;
}

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

/** Removes the query, which may contain user ids or access tokens, so that the URL may be logged. */
export function stripQuery(url: string): string {
  return url.split('?', 1)[0] ?? url;
}
