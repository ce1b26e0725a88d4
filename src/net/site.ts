import ipaddr from 'ipaddr.js';
import { getDomain } from 'tldts';

/**
 * Returns the site of a URL: its registrable domain, such as `example.co.uk`, its IPv4 address, the /32 of its IPv6
 * address (of a provider, because customers get a /48 for nothing), or its host if that is a single label. Limits apply
 * per site, because the owner of a domain can create any number of host names.
 */
export function getSite(url: string, options: { allowPrivateNetworks: boolean }): string {
  const { host, hostname } = new URL(url);
  if (options.allowPrivateNetworks) {
    // In development, all servers may run on one machine.
    return host;
  }
  if (hostname.startsWith('[')) {
    return ipaddr.IPv6.parse(hostname.slice(1, -1)).parts.slice(0, 2).join(':');
  }
  // Without validation, because wildcard DNS records also apply to invalid names such as `a-`.
  return getDomain(hostname, { validateHostname: false }) ?? hostname.replace(/\.$/, '');
}
