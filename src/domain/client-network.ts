import ipaddr from 'ipaddr.js';

/** The smallest block that a provider gives to one customer (RFC 6177): its addresses cost nothing. */
const IPV6_PREFIX_BITS = 64;

/**
 * Whom requests from an address are counted for: an IPv4 address itself, also where it is written as
 * IPv6, and of an IPv6 address its /64.
 *
 * @param address as a socket or a trusted proxy gives it; anything else is taken as it is
 */
export function clientNetwork(address: string): string {
  if (!ipaddr.isValid(address)) {
    return address;
  }
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) {
    return parsed.toString();
  }
  const network = ipaddr.IPv6.networkAddressFromCIDR(
    `${parsed.toNormalizedString().replace(/%.*$/, '')}/${IPV6_PREFIX_BITS}`,
  );
  return `${network.toString()}/${IPV6_PREFIX_BITS}`;
}
