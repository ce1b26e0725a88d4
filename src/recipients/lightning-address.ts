import { schnorr } from '@noble/curves/secp256k1.js';
import * as nip19 from 'nostr-tools/nip19';

/** Lengths of purchasable names (spec.md section 4.6, which sets no maximum). */
export const MIN_USERNAME_LENGTH = 3;
export const MAX_USERNAME_LENGTH = 64;

/** What a Lightning address names: a key, or a purchased name. */
export type RecipientAddress =
  | { kind: 'pubkey'; pubkey: string }
  | { kind: 'name'; name: string }
  | { kind: 'invalid_npub' }
  | { kind: 'unknown' };

/**
 * Parses the part of a Lightning address before the `@` (LUD-16), in any case. An npub must be a
 * point on the curve; otherwise no signature is possible, and a payment would be lost.
 */
export function parseRecipientAddress(localPart: string): RecipientAddress {
  const text = localPart.toLowerCase();
  if (text.startsWith('npub1')) {
    const pubkey = decodeNpub(text);
    return pubkey === null ? { kind: 'invalid_npub' } : { kind: 'pubkey', pubkey };
  }
  const name = parseUsername(localPart);
  return name === null ? { kind: 'unknown' } : { kind: 'name', name };
}

/** Returns the local parts of a recipient's addresses, in lower case: the npub and the name. */
export function listLocalParts(user: { pubkey: string; name: string | null }): string[] {
  const npub = nip19.npubEncode(user.pubkey);
  return user.name === null ? [npub] : [npub, user.name];
}

/** Returns the part of a Lightning address before the `@`, or the whole text if it has none. */
export function stripAddressHost(address: string): string {
  return address.replace(/@[^@]*$/, '');
}

/** Returns whether a hex key is an x coordinate on secp256k1 (BIP 340 `lift_x`). */
export function isOnCurve(pubkey: string): boolean {
  try {
    schnorr.utils.lift_x(BigInt(`0x${pubkey}`));
    return true;
  } catch {
    return false;
  }
}

/** Returns the key that locks quotes. Its parity does not matter (NUT-20). */
export function toQuoteLockPubkey(pubkey: string): string {
  return `02${pubkey}`;
}

function decodeNpub(text: string): string | null {
  try {
    const decoded = nip19.decode(text);
    return decoded.type === 'npub' && isOnCurve(decoded.data) ? decoded.data : null;
  } catch {
    return null;
  }
}

const USERNAME_PATTERN = new RegExp(
  `^[a-z0-9]{${MIN_USERNAME_LENGTH},${MAX_USERNAME_LENGTH}}$`,
  'i',
);

/** A secret key (NIP-19) pasted into the wrong field: as a username it would become public. */
const NSEC_PATTERN = /^nsec1[a-z0-9]{58}$/;

/**
 * Parses a username in any case: letters and digits, not starting with `npub1`, not an nsec
 * (spec.md section 4.6).
 *
 * @returns the name in lower case, or null if it is not allowed
 */
export function parseUsername(text: string): string | null {
  // Before lower-casing, which turns some foreign letters, such as the Kelvin sign, into ASCII.
  if (!USERNAME_PATTERN.test(text)) {
    return null;
  }
  const name = text.toLowerCase();
  return name.startsWith('npub1') || NSEC_PATTERN.test(name) ? null : name;
}
