import ipaddr from 'ipaddr.js';

/** The only IPv6 block for the public internet (RFC 4291). */
const GLOBAL_UNICAST_V6 = ipaddr.IPv6.parseCIDR('2000::/3');

/** NAT64's well-known prefix. The local-use prefix `64:ff9b:1::/48` leads into a private network. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

/** Formally public, but served by the host of an Azure virtual machine. */
const METADATA_ADDRESSES: ReadonlySet<string> = new Set(['168.63.129.16']);

/**
 * Returns whether an IP address is public unicast, so that untrusted URLs may lead to it. For an IPv6 address that
 * contains an IPv4 address (mapped, NAT64, 6to4), the latter must be public too.
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

/** Names of this machine, whatever a name server returns for them (RFC 6761 section 6.3). */
const LOOPBACK_NAME = /^(.*\.)?localhost\.?$/i;

/**
 * Returns whether a URL's host, without the brackets of an IPv6 address, is an address that is not public, or a
 * name of this machine. Other names are checked when connecting.
 */
export function isForbiddenHost(hostname: string): boolean {
  const isAddress = ipaddr.IPv4.isValidFourPartDecimal(hostname) || ipaddr.IPv6.isValid(hostname);
  return isAddress ? !isPublicAddress(hostname) : LOOPBACK_NAME.test(hostname);
}

/**
 * Returns whether requests may be sent to the port of an untrusted https or wss URL: 443 or an unprivileged port.
 * Every connection starts with TLS, so services of other protocols receive nothing that the URL's author controls.
 */
export function isAllowedPort({ port }: Pick<URL, 'port'>): boolean {
  return port === '' || Number(port) >= 1024;
}
