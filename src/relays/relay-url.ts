import { isForbiddenHost } from '../net/public-address.ts';
import { normaliseServerUrl } from '../net/server-url.ts';
import { MAX_RELAY_URL_LENGTH } from './limits.ts';

/**
 * Returns the one spelling of a relay's URL, so that all others share its connection. Keeps the query, with which some
 * relays identify their users. If private networks are allowed, also accepts ws:// and any port. Null: not a relay's URL.
 */
export function normaliseRelayUrl(
  untrustedText: string,
  { allowPrivateNetworks }: { allowPrivateNetworks: boolean },
): string | null {
  const url = normaliseServerUrl(untrustedText, {
    maxLength: MAX_RELAY_URL_LENGTH,
    scheme: 'ws',
    allowInsecure: allowPrivateNetworks,
  });
  const isForbidden =
    !allowPrivateNetworks && url !== null && isForbiddenHost(new URL(url).hostname);
  return isForbidden ? null : url;
}

/** Removes the query, which may contain user ids or access tokens, so that the URL may be logged. */
export function stripQuery(url: string): string {
  return url.split('?', 1)[0] ?? url;
}
