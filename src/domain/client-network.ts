import ipaddr from 'ipaddr.js';

/**
 * The smallest block that a provider gives to one customer (RFC 6177), in the 16-bit parts that an
 * address is written in: a /64, whose addresses cost nothing.
 */
const IPV6_NETWORK_PARTS = 4;

/** IPv4 in its only usual spelling. */
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const PLAIN_IPV4 = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`);

/** Of IPv4, as a socket for every address has it. */
const AS_IPV6 = '::ffff:';

/** Some proxies write a client's port too: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const WITH_PORT = /^(?:\[([^[\]]+)\]|([\d.]+))(?::\d{1,5})?$/;

/** As RFC 7239 calls one that is not told. All of those count as one, which keeps their number small. */
const UNKNOWN = 'unknown';

/**
 * Whom requests from an address are counted for: an IPv4 address itself, also where it is written as
 * IPv6, and of an IPv6 address its /64.
 *
 * @param address as a socket or a trusted proxy gives it, with a port or without; a socket that is
 *   closed has none
 * @returns at most 24 characters; `unknown` for what is no address
 */
export function clientNetwork(address: string | undefined): string {
  const written = address?.startsWith(AS_IPV6) ? address.slice(AS_IPV6.length) : address;
  // Most are: one look instead of taking them apart, which every request would wait for.
  if (written !== undefined && PLAIN_IPV4.test(written)) {
    return written;
  }
  const [, inBrackets, beforePort] = WITH_PORT.exec(address ?? '') ?? [];
  const bare = inBrackets ?? beforePort ?? address ?? '';
  if (!ipaddr.isValid(bare)) {
    return UNKNOWN;
  }
  const parsed = ipaddr.process(bare);
  if (parsed instanceof ipaddr.IPv4) {
    return parsed.toString();
  }
  const network = parsed.parts.slice(0, IPV6_NETWORK_PARTS);
  return `${network.map((part) => part.toString(16)).join(':')}::/${16 * IPV6_NETWORK_PARTS}`;
}
