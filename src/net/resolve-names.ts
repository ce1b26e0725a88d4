import { type LookupAddress, Resolver } from 'node:dns';
import type { ResolveAll } from './address-guard.ts';

/** The `code` of the error where nobody could say whether there is such a name. */
export const NAME_SERVERS_SILENT = 'ENAMESERVERSSILENT';

/** A name server has so long for an answer, and then the next one is asked. */
const TRY_MS = 1_000;

/** At each server; with one, they end within the time that a connection is given. */
const TRIES = 4;

/**
 * Where one kind of addresses is known, the other is waited for this long (RFC 8305 has 50 ms, for
 * people who look at a page): some name servers drop questions for IPv6 addresses.
 */
const OTHER_FAMILY_GRACE_MS = 300;

/** So long it is remembered which server is dead, and a change of the system's goes unnoticed. */
const RESOLVER_LIFE_MS = 30_000;

/** What a name server says of a name that is none, or has no such addresses. */
const NO_ADDRESS_CODES: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME']);

/**
 * Asks the system's name servers, or those given, for all addresses of a name.
 *
 * The system's own lookup would do it in threads, of which Node has two for all names: a stranger
 * whose name server does not answer would hold them, and with them every connection to anybody.
 * Here each question is for itself. The hosts file is not read: a name that stands only there is
 * not found, and one that name servers know too leads to where they say.
 *
 * @param servers addresses with their ports; for tests
 * @returns it fails with `ENOTFOUND` where the name has no address, and with
 *   {@link NAME_SERVERS_SILENT} where the servers do not answer, or cannot find out
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
        // The other question is left to itself: to cancel it would cancel everybody's.
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

/** In the words of the system's lookup, where it has any. */
function failureOf(errors: readonly NodeJS.ErrnoException[]): NodeJS.ErrnoException {
  const isSaid = errors.every(({ code = '' }) => NO_ADDRESS_CODES.has(code));
  return isSaid
    ? Object.assign(new Error('name not found'), { code: 'ENOTFOUND' })
    : Object.assign(new Error('name servers do not answer'), { code: NAME_SERVERS_SILENT });
}
