import ipaddr from 'ipaddr.js';

/** A client can have many addresses (an IPv6 /48, an IPv4 /24), so each limit counts prefixes of several lengths. */
export interface AddressPrefix {
  /** Such as `20010db80001/48` or `192.0.2/24`; `unknown` (RFC 7239). */
  key: string;
  /** How often the limit of an address fits into the bound of this prefix. */
  factor: number;
}

/** The prefixes of one address, the longest first. */
export type AddressPrefixes = readonly AddressPrefix[];

/** Customers get a /64 to a /48, and providers a /32. */
const IPV6_FACTORS = [
  [64, 1],
  [56, 2],
  [48, 4],
  [32, 16],
] as const;
const IPV4_FACTORS = [
  [32, 1],
  [24, 8],
] as const;

const UNKNOWN: AddressPrefix = { key: 'unknown', factor: 1 };

/** Some proxies append the client's port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const ADDRESS_WITH_PORT = /^(?:\[([^[\]]+)\]|([\d.]+))(?::\d{1,5})?$/;

/** @param address from a socket or a trusted proxy; empty if the socket is closed */
export function toAddressPrefixes(address = ''): AddressPrefixes {
  const [, inBrackets, beforePort] = ADDRESS_WITH_PORT.exec(address) ?? [];
  const bare = inBrackets ?? beforePort ?? address;
  if (!ipaddr.isValid(bare)) {
    return [UNKNOWN];
  }
  const parsed = ipaddr.process(bare);
  return parsed instanceof ipaddr.IPv4
    ? toIpv4Prefixes(parsed.toString())
    : toIpv6Prefixes(parsed.parts);
}

/** Returns the part of a bound that applies: 1 until half of `total` is used, then half with each further twentieth. */
export function computeShare(used: number, total: number): number {
  const fraction = total === 0 ? 0 : used / total;
  return fraction >= 1 ? 0 : Math.min(1, 2 ** (-20 * (fraction - 0.5)));
}

/** Whether each prefix is below its bound, of which `counts` are used. There is no limit if `maxPerAddress` is 0. */
export function hasRoom(
  prefixes: AddressPrefixes,
  counts: readonly number[],
  maxPerAddress: number,
  share = 1,
): boolean {
  return prefixes.every(
    (prefix, i) =>
      maxPerAddress === 0 || (counts[i] ?? 0) < computeBound(prefix, maxPerAddress, share),
  );
}

/** At least 1 while there is any room. */
export function computeBound({ factor }: AddressPrefix, maxPerAddress: number, share = 1): number {
  return Math.ceil(maxPerAddress * factor * share);
}

/** The clients of an IPv6 /48 or an IPv4 /24 take turns with those of others in a queue. */
export function toAddressGroup(prefixes: AddressPrefixes): string {
  return (prefixes[2] ?? prefixes.at(-1))?.key ?? UNKNOWN.key;
}

function toIpv4Prefixes(address: string): AddressPrefixes {
  const octets = address.split('.');
  return IPV4_FACTORS.map(([length, factor]) => ({
    key: `${octets.slice(0, length / 8).join('.')}/${length}`,
    factor,
  }));
}

function toIpv6Prefixes(hextets: readonly number[]): AddressPrefixes {
  const hex = hextets.map((hextet) => hextet.toString(16).padStart(4, '0')).join('');
  return IPV6_FACTORS.map(([length, factor]) => ({
    key: `${hex.slice(0, length / 4)}/${length}`,
    factor,
  }));
}
