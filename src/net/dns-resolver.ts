import { type LookupAddress, Resolver } from 'node:dns';
import { RequestFailure } from './request-failure.ts';

const QUERY_TIMEOUT_MS = 1_000;

/** With a single name server, all attempts end within the connect timeout. */
const ATTEMPTS_PER_SERVER = 4;

/**
 * How long to wait for IPv6 addresses after the IPv4 addresses have arrived, and vice versa. Some name servers never
 * answer queries for IPv6 addresses. (RFC 8305 recommends 50 ms for browsers.)
 */
const OTHER_FAMILY_GRACE_MS = 300;

/** A new resolver reads `/etc/resolv.conf` again and tries servers that failed before. */
const RESOLVER_TTL_MS = 30_000;

/** The name does not exist, is invalid, or has no addresses of the requested family. */
const NO_ADDRESS_CODES: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME']);

/** Resolves a name to all its addresses, like `dns.lookup` with `all`. */
export type ResolveHostname = (
  hostname: string,
  options: { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * Creates a resolver that queries the system's name servers and ignores the hosts file. (`dns.lookup` uses a few
 * threads; a slow name server could block them for all names.) If the name has no address or no server responds, the
 * callback gets an {@link RequestFailure}.
 *
 * @param servers addresses of name servers with ports, for tests
 */
export function createDnsResolver(servers?: readonly string[]): ResolveHostname {
  let resolver = createResolver(servers);
  let createdAtMs = performance.now();
  return (hostname, _options, callback) => {
    if (performance.now() - createdAtMs >= RESOLVER_TTL_MS) {
      resolver = createResolver(servers);
      createdAtMs = performance.now();
    }
    const foundAddresses: LookupAddress[] = [];
    const errors: NodeJS.ErrnoException[] = [];
    let pendingQueries = 2;
    let graceTimer: NodeJS.Timeout | undefined;
    let isDone = false;
    const finish = () => {
      if (!isDone) {
        isDone = true;
        clearTimeout(graceTimer);
        foundAddresses.sort((one, other) => one.family - other.family);
        const isNotFound = errors.every(({ code = '' }) => NO_ADDRESS_CODES.has(code));
        const reason = isNotFound ? 'name not found' : 'name servers do not answer';
        callback(foundAddresses.length === 0 ? new RequestFailure(reason) : null, foundAddresses);
      }
    };
    const onResult = (family: 4 | 6, error: NodeJS.ErrnoException | null, addresses: string[]) => {
      if (error === null) {
        foundAddresses.push(...addresses.map((address) => ({ address, family })));
      } else {
        errors.push(error);
      }
      pendingQueries -= 1;
      if (pendingQueries === 0) {
        finish();
      } else if (foundAddresses.length > 0) {
        // The other query is not cancelled, because `cancel` would end the queries for all names.
        graceTimer = setTimeout(finish, OTHER_FAMILY_GRACE_MS);
      }
    };
    resolver.resolve4(hostname, (error, addresses) => onResult(4, error, addresses));
    resolver.resolve6(hostname, (error, addresses) => onResult(6, error, addresses));
  };
}

function createResolver(servers: readonly string[] | undefined): Resolver {
  const resolver = new Resolver({
    timeout: QUERY_TIMEOUT_MS,
    tries: ATTEMPTS_PER_SERVER,
    maxTimeout: QUERY_TIMEOUT_MS,
  });
  if (servers !== undefined) {
    resolver.setServers(servers);
  }
  return resolver;
}
