import ipaddr from 'ipaddr.js';

/** The only block of public IPv6 addresses (RFC 4291). */
const GLOBAL_UNICAST_V6 = ipaddr.IPv6.parseCIDR('2000::/3');

/** The prefix of NAT64 for public addresses. Another prefix, `64:ff9b:1::/48`, leads into a private network. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

/** Addresses in a public range that lead to the platform of an Azure virtual machine. */
const METADATA_ADDRESSES: ReadonlySet<string> = new Set(['168.63.129.16']);

/**
 * Returns whether untrusted URLs may lead to an IP address, because it is public unicast. If an IPv6 address contains
 * an IPv4 address (mapped, NAT64, 6to4), the IPv4 address must be public.
 */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) {
    return false;
  }
  const parsed = ipaddr.parse(address);
  if (parsed instanceof ipaddr.IPv4) {
    return parsed.range() === 'unicast' && !METADATA_ADDRESSES.has(parsed.toString());
  }
  if (parsed.zoneId !== undefined) {
    return false;
  }
  const bytes = parsed.toByteArray();
  switch (parsed.range()) {
    case 'unicast':
      return parsed.match(GLOBAL_UNICAST_V6);
    case 'ipv4Mapped':
      return isPublicAddress(bytes.slice(12).join('.'));
    case 'rfc6052':
      return parsed.match(NAT64) && isPublicAddress(bytes.slice(12).join('.'));
    case '6to4':
      return isPublicAddress(bytes.slice(2, 6).join('.'));
    default:
      return false;
  }
}

/** Names that always mean this machine, whatever a name server returns for them (RFC 6761 section 6.3). */
const LOOPBACK_NAME = /^(.*\.)?localhost\.?$/i;

/**
 * Returns whether a host is an address that is not public, or a name of this machine. The addresses of other names
 * are checked when a connection is made.
 *
 * @param hostname of a URL
 */
export function isForbiddenHost(hostname: string): boolean {
  const host = withoutBrackets(hostname);
  const isAddress = ipaddr.IPv4.isValidFourPartDecimal(host) || ipaddr.IPv6.isValid(host);
  return isAddress ? !isPublicAddress(host) : LOOPBACK_NAME.test(host);
}

/** In a URL, an IPv6 address is in brackets. */
export function withoutBrackets(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '');
}

/**
 * Returns whether requests may be sent to the port of an untrusted https or wss URL: 443 or an unprivileged port.
 * A service with another protocol receives only a TLS handshake, which the author of the URL cannot control.
 */
export function isAllowedPort({ port }: Pick<URL, 'port'>): boolean {
  return port === '' || Number(port) >= 1024;
}
