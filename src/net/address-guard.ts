import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';

/** The `code` of the error that a refused address gives, beside Node's own (`ECONNREFUSED`...). */
export const FORBIDDEN_ADDRESS = 'EFORBIDDENADDRESS';

/** A name with more gets connections to a few: it would be a list of whom a stranger wants us to try. */
const MAX_ADDRESSES = 8;

/** The only IPv6 block that is given out for the public internet (RFC 4291); the rest is special. */
const GLOBAL_UNICAST_V6 = ipaddr.IPv6.parseCIDR('2000::/3');

/** NAT64's well-known prefix; its local-use sibling `64:ff9b:1::/48` leads into somebody's network. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

/** Public by number, but answered by the host that an Azure machine runs on. */
const METADATA_ADDRESSES: ReadonlySet<string> = new Set(['168.63.129.16']);

/** Resolves a name to all of its addresses: the shape of `dns.lookup` with `all`. */
export type ResolveAll = (
  hostname: string,
  options: { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

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
 * Whether a url's host is refused as it is written: an address, for which Node looks no name up, so
 * that {@link guardedLookup} would never see it, or a name of the machine itself.
 *
 * @param hostname without the brackets of an IPv6 address
 */
export function isForbiddenHost(hostname: string): boolean {
  return isIP(hostname) === 0 ? LOOPBACK_NAME.test(hostname) : !isPublicAddress(hostname);
}

/**
 * A `lookup` for `net.connect` that leaves only public addresses. It runs for every connection, and
 * the connection goes to the very addresses that were judged: a name that answers differently a
 * moment later (DNS rebinding) gains nothing.
 */
export function guardedLookup(resolve: ResolveAll): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { all: true }, (error, addresses) => {
      if (error) {
        callback(error, []);
        return;
      }
      const allowed = addresses
        .filter(({ address }) => isPublicAddress(address))
        .slice(0, MAX_ADDRESSES);
      const [first] = allowed;
      if (first === undefined) {
        callback(forbiddenAddressError(), []);
      } else if (options.all) {
        callback(null, allowed);
      } else {
        callback(null, first.address, first.family);
      }
    });
  };
}

/** What a connection to a refused address fails with. It names no address. */
export function forbiddenAddressError(): NodeJS.ErrnoException {
  return Object.assign(new Error('forbidden address'), { code: FORBIDDEN_ADDRESS });
}
