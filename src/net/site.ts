import ipaddr from 'ipaddr.js';
import { getDomain } from 'tldts';
import { isForbiddenHost } from './public-address.ts';

/**
 * Returns the unit to which limits apply, because its owner can create any number of hosts: a registrable domain, an IPv4
 * address, the /32 of an IPv6 address (customers get a /48 for nothing), or a host name of a single label.
 */
export function getSite(url: string): string {
  const { host, hostname } = new URL(url);
  if (isForbiddenHost(hostname)) {
    // Only in development, where all servers may run on one machine.
    return host;
  }
  if (hostname.startsWith('[')) {
    return ipaddr.IPv6.parse(hostname.slice(1, -1)).parts.slice(0, 2).join(':');
  }
  // Without validation, because wildcard DNS records also apply to invalid names such as `a-`.
  return getDomain(hostname, { validateHostname: false }) ?? hostname.replace(/\.$/, '');
}
