import { secp256k1 } from '@noble/curves/secp256k1.js';
import * as nip19 from 'nostr-tools/nip19';

const HEX_KEY = /^[0-9a-f]{64}$/i;

/**
 * Reads the secret key of a Nostr identity (NIP-19 `nsec`, or 64 hexadecimal digits).
 *
 * @returns lower-case hex, or null if the text is not a valid key
 */
export function readSecretKey(text: string): string | null {
  const hex = HEX_KEY.test(text) ? text.toLowerCase() : decodeNsec(text);
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
