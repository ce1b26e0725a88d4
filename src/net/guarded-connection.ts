import type { LookupFunction } from 'node:net';
import { type ConnectionOptions, DEFAULT_CIPHERS } from 'node:tls';
import '../address-timeout.ts';
import { createGuardedLookup, type ResolveHostname } from './address-guard.ts';
import { createDnsResolver } from './dns-resolver.ts';

/** Which hosts the service may connect to. */
export interface ConnectionPolicy {
  /** Whether to allow plain http and ws, any port and private addresses, for development. */
  allowPrivateNetworks: boolean;
  resolve?: ResolveHostname | undefined;
}

export const TLS_OPTIONS = {
  // For Diffie-Hellman, a server can choose a group in which the client computes for a second.
  ciphers: `${DEFAULT_CIPHERS}:!DHE`,
  ecdhCurve: 'X25519MLKEM768:X25519:P-256:P-384:P-521',
  // Explicit, because the environment can change the default (NODE_TLS_REJECT_UNAUTHORIZED).
  rejectUnauthorized: true,
} satisfies ConnectionOptions;

/**
 * The most bytes of a TLS handshake. Certificate chains on the web take up to 10 kB. Forged ones of 100 kB would take
 * 140 ms to verify.
 */
export const MAX_HANDSHAKE_BYTES = 32 * 1024;

/** Returns the `lookup` option of `net.connect`, which rejects addresses that are not public. */
export function createLookup(policy: ConnectionPolicy): { lookup?: LookupFunction } {
  return policy.allowPrivateNetworks
    ? {}
    : { lookup: createGuardedLookup(policy.resolve ?? createDnsResolver()) };
}
