import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { isPublicAddress } from '../domain/public-address.ts';

/** The `code` of the error that a refused address gives, beside Node's own (`ECONNREFUSED`...). */
export const FORBIDDEN_ADDRESS = 'EFORBIDDENADDRESS';

/** A name with more gets connections to a few: it would be a list of whom a stranger wants us to try. */
const MAX_ADDRESSES = 8;

/** Resolves a name to all of its addresses: the shape of `dns.lookup` with `all`. */
export type ResolveAll = (
  hostname: string,
  options: { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

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
