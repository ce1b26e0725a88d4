import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { isPublicAddress } from './public-address.ts';
import { RequestFailure } from './request-failure.ts';

/** Without a limit, one name could make this service try any number of addresses. */
const MAX_ADDRESSES = 8;

/** Resolves a name to all its addresses, like `dns.lookup` with `all`. */
export type ResolveHostname = (
  hostname: string,
  options: { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * Creates a `lookup` function for `net.connect` that returns only public addresses. Node calls it for every
 * connection, so DNS rebinding cannot bypass the check.
 */
export function createGuardedLookup(resolve: ResolveHostname): LookupFunction {
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
        callback(new RequestFailure('forbidden address'), []);
      } else if (options.all) {
        callback(null, allowed);
      } else {
        callback(null, first.address, first.family);
      }
    });
  };
}
