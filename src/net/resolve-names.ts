import { type LookupAddress, Resolver } from 'node:dns';
import type { ResolveAll } from './address-guard.ts';

/** A try, and the second one twice as long, end within the time that a connection is given. */
const FIRST_TRY_MS = 1_500;
const TRIES = 2;

/**
 * Asks the system's name servers, or those given, for all addresses of a name.
 *
 * The system's own lookup would do it in threads, of which Node has two for all names: a stranger
 * whose name server does not answer would hold them, and with them every connection to anybody.
 * Here each question is for itself. Names of the hosts file are not known: they are private anyway.
 *
 * @param servers addresses with their ports; for tests
 */
export function nameResolver(servers?: readonly string[]): ResolveAll {
  return (hostname, _options, callback) => {
    // A new one each time sees when the system's servers have changed.
    const resolver = new Resolver({ timeout: FIRST_TRY_MS, tries: TRIES });
    if (servers !== undefined) {
      resolver.setServers(servers);
    }
    const found: LookupAddress[][] = [];
    const take = (family: 4 | 6, addresses: string[] | undefined) => {
      found.push((addresses ?? []).map((address) => ({ address, family })));
      if (found.length === 2) {
        const all = found.flat().sort((one, other) => one.family - other.family);
        callback(all.length === 0 ? nameNotFoundError() : null, all);
      }
    };
    resolver.resolve4(hostname, (_error, addresses) => take(4, addresses));
    resolver.resolve6(hostname, (_error, addresses) => take(6, addresses));
  };
}

/** In the words of the system's lookup. */
function nameNotFoundError(): NodeJS.ErrnoException {
  return Object.assign(new Error('name not found'), { code: 'ENOTFOUND' });
}
