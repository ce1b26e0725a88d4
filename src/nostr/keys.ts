import { secp256k1 } from '@noble/curves/secp256k1.js';
import * as nip19 from 'nostr-tools/nip19';

const HEX_KEY_PATTERN = /^[0-9a-f]{64}$/i;

/** Parses a secret key (NIP-19 `nsec` or hex). Returns lower-case hex, or null if it is invalid. */
export function parseSecretKey(text: string): string | null {
  const hex = HEX_KEY_PATTERN.test(text) ? text.toLowerCase() : decodeNsec(text);
  return hex !== null && secp256k1.utils.isValidSecretKey(Buffer.from(hex, 'hex')) ? hex : null;
}

function decodeNsec(text: string): string | null {
  try {
    const decoded = nip19.decode(text.toLowerCase());
    return decoded.type === 'nsec' ? Buffer.from(decoded.data).toString('hex') : null;
  } catch {
    return null;
  }
}
