import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** A /64 in 16-bit parts: the smallest block that a provider gives to one customer (RFC 6177). */
const IPV6_NETWORK_PARTS = 4;

/** Some proxies write a client's port too: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const WITH_PORT = /^(?:\[([^[\]]+)\]|([\d.]+))(?::\d{1,5})?$/;

/**
 * Returns the client that requests from an address count for: an IPv4 address itself, also if it is written as IPv6,
 * and the /64 of an IPv6 address.
 *
 * @param address of a socket, or as a trusted proxy writes it; a closed socket has none
 * @returns at most 24 characters; `unknown` (RFC 7239) for anything that is not an address
 */
export function clientNetwork(address = ''): string {
  if (isIPv4(address)) {
    return address;
  }
  const [, inBrackets, beforePort] = WITH_PORT.exec(address) ?? [];
  const bare = inBrackets ?? beforePort ?? address;
  if (!ipaddr.isValid(bare)) {
    return 'unknown';
  }
  const parsed = ipaddr.process(bare);
  if (parsed instanceof ipaddr.IPv4) {
    return parsed.toString();
  }
  const network = parsed.parts.slice(0, IPV6_NETWORK_PARTS);
  return `${network.map((part) => part.toString(16)).join(':')}::/${16 * IPV6_NETWORK_PARTS}`;
}
