import { type LookupAddress, promises } from 'node:dns';
import { waitAtMost } from '../wait-at-most.ts';
import { RequestFailure } from './request-failure.ts';

/** Resolves a name to all its addresses. Rejects with a {@link RequestFailure}. */
export type ResolveHostname = (hostname: string) => Promise<LookupAddress[]>;

/** Does not use `dns.lookup`, whose few threads a slow name server could block for all names. */
export function createDnsResolver(servers?: readonly string[]): ResolveHostname {
  let resolver = createResolver(servers);
  let createdAtMs = performance.now();
  return async (hostname) => {
    // A new resolver reads `/etc/resolv.conf` again and tries servers that failed before.
    if (performance.now() - createdAtMs >= 30_000) {
      resolver = createResolver(servers);
      createdAtMs = performance.now();
    }
    const found: LookupAddress[] = [];
    const add = (addresses: string[], family: 4 | 6) =>
      found.push(...addresses.map((address) => ({ address, family })));
    const queries = [
      resolver.resolve4(hostname).then((addresses) => add(addresses, 4)),
      resolver.resolve6(hostname).then((addresses) => add(addresses, 6)),
    ];
    const bothEnded = Promise.allSettled(queries);
    try {
      await Promise.any(queries);
    } catch (error) {
      const { errors } = error as AggregateError;
      const isNotFound = errors.every(({ code }) => NO_ADDRESS_CODES.has(code));
      throw new RequestFailure(isNotFound ? 'name not found' : 'name servers do not answer');
    }
    // Some name servers never answer one of the queries. It is not cancelled, because `cancel` ends those of all names.
    await waitAtMost(300, bothEnded);
    return found.toSorted((a, b) => a.family - b.family);
  };
}

const NO_ADDRESS_CODES: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME']);

function createResolver(servers: readonly string[] | undefined): promises.Resolver {
  // With a single name server, all attempts end within the connect timeout.
  const resolver = new promises.Resolver({ timeout: 1_000, tries: 4, maxTimeout: 1_000 });
  if (servers !== undefined) {
    resolver.setServers(servers);
  }
  return resolver;
}
