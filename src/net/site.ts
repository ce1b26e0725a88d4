import ipaddr from 'ipaddr.js';
import { getDomain } from 'tldts';

/** Registries assign at least a /32 to a provider. Customers get a /48, and so any number of addresses, for nothing. */
const IPV6_SITE_HEXTETS = 2;

/**
 * Returns the site of a URL: its registrable domain, such as `example.co.uk`, its IPv4 address, the /32 of its IPv6
 * address, or its host if that is a single label. Limits apply per site, because the owner of a domain can create any
 * number of host names.
 *
 * @param options.allowPrivateNetworks for development: all servers may run on one machine, so the port counts, too
 */
export function getSite(url: string, options: { allowPrivateNetworks: boolean }): string {
  const { host, hostname } = new URL(url);
  if (options.allowPrivateNetworks) {
    return host;
  }
  if (hostname.startsWith('[')) {
    return ipaddr.IPv6.parse(hostname.slice(1, -1)).parts.slice(0, IPV6_SITE_HEXTETS).join(':');
  }
  // Without validation, because wildcard DNS records also apply to invalid names such as `a-`.
  return getDomain(hostname, { validateHostname: false }) ?? hostname.replace(/\.$/, '');
}
