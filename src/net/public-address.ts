import ipaddr from 'ipaddr.js';

/** The only IPv6 block that is given out for the public internet (RFC 4291); the rest is special. */
const GLOBAL_UNICAST_V6 = ipaddr.IPv6.parseCIDR('2000::/3');

/** NAT64's well-known prefix; its local-use sibling `64:ff9b:1::/48` leads into somebody's network. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

/** Public by number, but answered by the host that an Azure machine runs on. */
const METADATA_ADDRESSES: ReadonlySet<string> = new Set(['168.63.129.16']);

/**
 * Whether an address is one that a stranger may send us to: public unicast.
 *
 * An IPv6 address that carries an IPv4 one (mapped, NAT64, 6to4) is judged by that one too.
 *
 * @param address an IP address in text; anything else is not public
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

/** Names of the machine itself, whatever a name server says of them (RFC 6761 section 6.3). */
const LOOPBACK_NAME = /^(.*\.)?localhost\.?$/i;

/**
 * Whether a url's host is refused as it is written: an address that is not public, or a name of the
 * machine itself. What other names lead to is judged when somebody connects.
 *
 * @param hostname without the brackets of an IPv6 address
 */
export function isForbiddenHost(hostname: string): boolean {
  const isAddress = ipaddr.IPv4.isValidFourPartDecimal(hostname) || ipaddr.IPv6.isValid(hostname);
  return isAddress ? !isPublicAddress(hostname) : LOOPBACK_NAME.test(hostname);
}

/** Ports below it belong to the system: mail, remote shells, name and file servers. */
const FIRST_UNPRIVILEGED_PORT = 1024;

/**
 * Whether requests may go to the port of a stranger's https or wss URL: 443, or a port that needs no privilege.
 *
 * No other well-known port is refused. TLS comes first on every connection, so no other protocol reads what a
 * stranger writes, and a stranger reaches a public address without this service. A longer list would only hit
 * honest mints.
 */
export function isPublicPort({ port }: Pick<URL, 'port'>): boolean {
  return port === '' || Number(port) >= FIRST_UNPRIVILEGED_PORT;
}
