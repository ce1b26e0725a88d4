import { schnorr } from '@noble/curves/secp256k1.js';
import * as nip19 from 'nostr-tools/nip19';
import { parseUsername } from './username.ts';

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
