import * as nip19 from 'nostr-tools/nip19';
import { schnorr } from '@noble/curves/secp256k1.js';

/** Shortest and longest purchasable name (spec.md section 4.6; the upper end is ours). */
export const MIN_USERNAME_LENGTH = 3;
export const MAX_USERNAME_LENGTH = 64;

/** Whom a Lightning address names: a key directly, or a purchased name still to be looked up. */
export type RecipientAddress =
  | { kind: 'pubkey'; pubkey: string }
  | { kind: 'name'; name: string }
  | { kind: 'invalid_npub' }
  | { kind: 'unknown' };

/**
 * Reads the part of a Lightning address before the `@` (LUD-16), in any case.
 *
 * An npub must be a point on the curve: nobody could ever sign for another one, so a payment
 * to it would be lost.
 */
export function parseRecipient(user: string): RecipientAddress {
  const text = user.toLowerCase();
  if (text.startsWith('npub1')) {
    const pubkey = decodeNpub(text);
    return pubkey === null ? { kind: 'invalid_npub' } : { kind: 'pubkey', pubkey };
  }
  const name = parseUsername(user);
  return name === null ? { kind: 'unknown' } : { kind: 'name', name };
}

/** Every address that names a recipient, as in {@link parseRecipient}, in lower case: the npub, and the name. */
export function addressesOf({ pubkey, name }: { pubkey: string; name: string | null }): string[] {
  const npub = nip19.npubEncode(pubkey);
  return name === null ? [npub] : [npub, name];
}

/** What stands before the `@` of a Lightning address, whatever the host; any other text as it is. */
export function withoutHost(address: string): string {
  return address.replace(/@[^@]*$/, '');
}

/** Whether 64 hex characters are the x coordinate of a point on secp256k1 (BIP 340 `lift_x`). */
export function isOnCurve(pubkey: string): boolean {
  try {
    schnorr.utils.lift_x(BigInt(`0x${pubkey}`));
    return true;
  } catch {
    return false;
  }
}

/** The compressed form of a Nostr key that locks a quote: parity does not matter there (NUT-20). */
export function lockingKey(pubkey: string): string {
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

const SHAPE = new RegExp(`^[a-z0-9]{${MIN_USERNAME_LENGTH},${MAX_USERNAME_LENGTH}}$`, 'i');

/** Somebody's secret key (NIP-19), pasted into the wrong field: as a name, all the world would read it. */
const SECRET_KEY = /^nsec1[a-z0-9]{58}$/;

/**
 * Reads a username in any case: letters and digits, not the beginning of an npub, and not a whole nsec
 * (spec.md section 4.6).
 *
 * @returns the name in lower case, as it is stored and answered; null where it can be nobody's name
 */
export function parseUsername(text: string): string | null {
  // Before it is lower case: foreign letters, such as the sign for kelvin, become English ones then.
  if (!SHAPE.test(text)) {
    return null;
  }
  const name = text.toLowerCase();
  return name.startsWith('npub1') || SECRET_KEY.test(name) ? null : name;
}
