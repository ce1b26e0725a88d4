import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** A client can have many addresses (an IPv6 /48, an IPv4 /24), so each limit counts prefixes of several lengths. */
export interface AddressPrefix {
  /** Such as `20010db80001/48` or `192.0.2/24`. If there is no valid address, `unknown` (RFC 7239). */
  key: string;
  /** The bound of this prefix is the limit of a single address times this factor. */
  factor: number;
}

/** The prefixes of one address, the longest first. */
export type AddressPrefixes = readonly AddressPrefix[];

const UNKNOWN: AddressPrefix = { key: 'unknown', factor: 1 };

/** Some proxies append the client's port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const ADDRESS_WITH_PORT = /^(?:\[([^[\]]+)\]|([\d.]+))(?::\d{1,5})?$/;

/** @param address from a socket or a trusted proxy; undefined if the socket is closed */
export function toAddressPrefixes(address = ''): AddressPrefixes {
  const [, inBrackets, beforePort] = ADDRESS_WITH_PORT.exec(address) ?? [];
  const addressWithoutPort = inBrackets ?? beforePort ?? address;
  // With the library's parser, a request for payment terms would take 15 % longer.
  if (isIPv4(addressWithoutPort)) {
    return toIpv4Prefixes(addressWithoutPort);
  }
  if (!ipaddr.isValid(addressWithoutPort)) {
    return [UNKNOWN];
  }
  const parsed = ipaddr.process(addressWithoutPort);
  return parsed instanceof ipaddr.IPv4
    ? toIpv4Prefixes(parsed.toString())
    : toIpv6Prefixes(parsed.parts);
}

/**
 * Returns the share of their bounds that prefixes may still use while they fill a common total: 1 until half of the total
 * is used, then half as much with each further twentieth (1/2 at 55 %, 1/4 at 60 %), and 0 when all of it is used. A total
 * of 0 has no limit.
 */
export function computeShare(used: number, total: number): number {
  const usedFraction = total === 0 ? 0 : used / total;
  const twentiethsBeyondHalf = 20 * (usedFraction - 0.5);
  return usedFraction >= 1 ? 0 : Math.min(1, 2 ** -twentiethsBeyondHalf);
}

/** Returns whether each prefix is below its bound. `counts` has the same order. A `maxPerAddress` of 0 is no limit. */
export function hasRoom(
  prefixes: AddressPrefixes,
  counts: readonly number[],
  maxPerAddress: number,
  share = 1,
): boolean {
  return (
    maxPerAddress === 0 ||
    prefixes.every((prefix, i) => (counts[i] ?? 0) < computeBound(prefix, maxPerAddress, share))
  );
}

/** Returns at least 1, unless `share` is 0. */
export function computeBound({ factor }: AddressPrefix, maxPerAddress: number, share = 1): number {
  return Math.ceil(maxPerAddress * factor * share);
}

/** Returns the key of the IPv6 /48 or IPv4 /24. Clients with the same group share a place in queues. */
export function toAddressGroup(prefixes: AddressPrefixes): string {
  const group = prefixes.find(({ key }) => key.endsWith('/48')) ?? prefixes.at(-1);
  return group?.key ?? UNKNOWN.key;
}

function toIpv4Prefixes(address: string): AddressPrefixes {
  const octets = address.split('.');
  return [
    { key: `${address}/32`, factor: 1 },
    { key: `${octets.slice(0, 3).join('.')}/24`, factor: 8 },
  ];
}

/** Customers get a /64 to a /48, and providers a /32. */
function toIpv6Prefixes(hextets: readonly number[]): AddressPrefixes {
  const hex = hextets.map((hextet) => hextet.toString(16).padStart(4, '0')).join('');
  return [
    { key: `${hex.slice(0, 16)}/64`, factor: 1 },
    { key: `${hex.slice(0, 14)}/56`, factor: 2 },
    { key: `${hex.slice(0, 12)}/48`, factor: 4 },
    { key: `${hex.slice(0, 8)}/32`, factor: 16 },
  ];
}
