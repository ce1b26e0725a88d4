import { type LookupAddress, promises } from 'node:dns';
import { waitAtMost } from '../wait-at-most.ts';
import { RequestFailure } from './request-failure.ts';

/** The wait for IPv6 after IPv4 addresses and vice versa. Some name servers never answer queries for IPv6 addresses. */
const OTHER_FAMILY_GRACE_MS = 300;

/** A new resolver reads `/etc/resolv.conf` again and tries servers that failed before. */
const RESOLVER_TTL_MS = 30_000;

const NO_ADDRESS_CODES: readonly unknown[] = ['ENOTFOUND', 'ENODATA', 'EBADNAME'];

/** Resolves a name to all its addresses. Rejects with a {@link RequestFailure}. */
export type ResolveHostname = (hostname: string) => Promise<LookupAddress[]>;

/** Unlike this, `dns.lookup` uses a few threads, which a slow name server could block for all names. */
export function createDnsResolver(servers?: readonly string[]): ResolveHostname {
  let resolver = createResolver(servers);
  let createdAtMs = performance.now();
  return async (hostname) => {
    if (performance.now() - createdAtMs >= RESOLVER_TTL_MS) {
      resolver = createResolver(servers);
      createdAtMs = performance.now();
    }
    const found: LookupAddress[] = [];
    const queries = [
      resolver
        .resolve4(hostname)
        .then((addresses) =>
          found.unshift(...addresses.map((address) => ({ address, family: 4 }))),
        ),
      resolver
        .resolve6(hostname)
        .then((addresses) => found.push(...addresses.map((address) => ({ address, family: 6 })))),
    ];
    const allEnded = Promise.allSettled(queries);
    try {
      await Promise.any(queries);
    } catch (error) {
      const { errors } = error as AggregateError;
      const isNotFound = errors.every(({ code }) => NO_ADDRESS_CODES.includes(code));
      throw new RequestFailure(isNotFound ? 'name not found' : 'name servers do not answer');
    }
    // The other query is not cancelled, because `cancel` would end the queries for all names.
    await waitAtMost(OTHER_FAMILY_GRACE_MS, allEnded);
    return [...found];
  };
}

function createResolver(servers: readonly string[] | undefined): promises.Resolver {
  // With a single name server, all attempts end within the connect timeout.
  const resolver = new promises.Resolver({ timeout: 1_000, tries: 4, maxTimeout: 1_000 });
  if (servers !== undefined) {
    resolver.setServers(servers);
  }
  return resolver;
}
