import { type LookupAddress, Resolver } from 'node:dns';
import type { ResolveAll } from './address-guard.ts';
import { UnreachableError } from './unreachable-reason.ts';

/** Before the next name server is tried. */
const TRY_MS = 1_000;

/** At each server; with one server, they end within the connect timeout. */
const TRIES = 4;

/**
 * How long the resolver waits for addresses of the second family (RFC 8305 has 50 ms, for browsers): some
 * name servers drop queries for IPv6 addresses.
 */
const OTHER_FAMILY_GRACE_MS = 300;

/** A resolver remembers which server is dead, and ignores changes of /etc/resolv.conf. */
const RESOLVER_LIFE_MS = 30_000;

/** The name does not exist, or has no such addresses. */
const NO_ADDRESS_CODES: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME']);

/**
 * Creates a resolver that queries the system's name servers, and ignores the hosts file. `dns.lookup` would
 * use threads, which a stranger's silent name server could block for all other names.
 *
 * It fails with an {@link UnreachableError} if the name has no address, or no server answers.
 *
 * @param servers addresses with their ports; for tests
 */
export function nameResolver(servers?: readonly string[]): ResolveAll {
  let resolver = newResolver(servers);
  let madeAtMs = performance.now();
  return (hostname, _options, callback) => {
    if (performance.now() - madeAtMs >= RESOLVER_LIFE_MS) {
      resolver = newResolver(servers);
      madeAtMs = performance.now();
    }
    const found: LookupAddress[] = [];
    const errors: NodeJS.ErrnoException[] = [];
    let waitingFor = 2;
    let grace: NodeJS.Timeout | undefined;
    let isDone = false;
    const finish = () => {
      if (!isDone) {
        isDone = true;
        clearTimeout(grace);
        found.sort((one, other) => one.family - other.family);
        callback(found.length === 0 ? failureOf(errors) : null, found);
      }
    };
    const take = (family: 4 | 6, error: NodeJS.ErrnoException | null, addresses: string[] = []) => {
      found.push(...addresses.map((address) => ({ address, family })));
      errors.push(...(error === null ? [] : [error]));
      waitingFor -= 1;
      if (waitingFor === 0) {
        finish();
      } else if (found.length > 0) {
        // The other query goes on: `cancel` would end the queries for all names.
        grace = setTimeout(finish, OTHER_FAMILY_GRACE_MS);
      }
    };
    resolver.resolve4(hostname, (error, addresses) => take(4, error, addresses));
    resolver.resolve6(hostname, (error, addresses) => take(6, error, addresses));
  };
}

function newResolver(servers: readonly string[] | undefined): Resolver {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES, maxTimeout: TRY_MS });
  if (servers !== undefined) {
    resolver.setServers(servers);
  }
  return resolver;
}

function failureOf(errors: readonly NodeJS.ErrnoException[]): UnreachableError {
  const isSaid = errors.every(({ code = '' }) => NO_ADDRESS_CODES.has(code));
  return new UnreachableError(isSaid ? 'name not found' : 'name servers do not answer');
}
