import { type LookupAddress, lookup } from 'node:dns';
import type { ResolveAll } from './address-guard.ts';
import { nameResolver } from './resolve-names.ts';
import { type UnreachableReason, unreachableReason } from './unreachable-reason.ts';

/** What became of a question for the addresses of a name. */
export type LookedUp =
  | { outcome: 'found'; tookMs: number }
  | {
      outcome: 'failed';
      reason: UnreachableReason;
      tookMs: number;
      /** The system knows it all the same, as from the hosts file. */
      isKnownToSystem: boolean;
    };

/**
 * Asks for a name's addresses as connections to strangers do: the name servers, and not the hosts file.
 *
 * @param resolve asks the name servers
 */
export async function lookUpName(name: string, resolve = nameResolver()): Promise<LookedUp> {
  const askedAtMs = performance.now();
  const found = await addressesOf(name, resolve);
  const tookMs = Math.round(performance.now() - askedAtMs);
  if (Array.isArray(found)) {
    return { outcome: 'found', tookMs };
  }
  const isKnownToSystem = Array.isArray(await addressesOf(name, lookup));
  return { outcome: 'failed', reason: unreachableReason(found), tookMs, isKnownToSystem };
}

function addressesOf(name: string, resolve: ResolveAll): Promise<LookupAddress[] | Error> {
  const { promise, resolve: answer } = Promise.withResolvers<LookupAddress[] | Error>();
  resolve(name, { all: true }, (error, addresses) => answer(error ?? addresses));
  return promise;
}
