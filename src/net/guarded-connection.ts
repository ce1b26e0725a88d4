import type { LookupFunction } from 'node:net';
import { type ConnectionOptions, DEFAULT_CIPHERS } from 'node:tls';
import '../connect-attempt-timeout.ts';
import { createDnsResolver, type ResolveHostname } from './dns-resolver.ts';
import { isAllowedPort, isForbiddenHost, isPublicAddress } from './public-address.ts';
import { RequestFailure, type RequestFailureReason } from './request-failure.ts';

export interface ConnectionPolicy {
  /** For development: allows plain http and ws, any port and private addresses. */
  allowPrivateNetworks: boolean;
  resolve?: ResolveHostname | undefined;
}

/** Returns why the service must not connect to a URL. {@link createLookupOption} checks the addresses of host names. */
export function findForbiddenPart(
  url: URL,
  { allowPrivateNetworks }: ConnectionPolicy,
): RequestFailureReason | null {
  if (allowPrivateNetworks) {
    return null;
  }
  if (url.protocol !== 'https:' && url.protocol !== 'wss:') {
    return 'https required';
  }
  if (!isAllowedPort(url)) {
    return 'forbidden port';
  }
  return isForbiddenHost(url.hostname) ? 'forbidden address' : null;
}

/** Creates the option `lookup` of `net.connect`. Node calls it for every connection, so DNS rebinding cannot bypass it. */
export function createLookupOption(policy: ConnectionPolicy): { lookup?: LookupFunction } {
  if (policy.allowPrivateNetworks) {
    return {};
  }
  const resolve = policy.resolve ?? createDnsResolver();
  const lookup: LookupFunction = (hostname, options, callback) => {
    resolve(hostname).then(
      (addresses) => {
        const [first, ...others] = addresses
          .filter(({ address }) => isPublicAddress(address))
          // Without a limit, one name could make this service try any number of addresses.
          .slice(0, 8);
        if (first === undefined) {
          callback(new RequestFailure('forbidden address'), []);
        } else if (options.all) {
          callback(null, [first, ...others]);
        } else {
          callback(null, first.address, first.family);
        }
      },
      (error: Error) => callback(error, []),
    );
  };
  return { lookup };
}

export const TLS_OPTIONS = {
  // Without DHE: a server could choose a Diffie-Hellman group in which this client computes for a second.
  ciphers: `${DEFAULT_CIPHERS}:!DHE`,
  ecdhCurve: 'X25519MLKEM768:X25519:P-256:P-384:P-521',
  // Explicit, because the environment can change the default (NODE_TLS_REJECT_UNAUTHORIZED).
  rejectUnauthorized: true,
} satisfies ConnectionOptions;
