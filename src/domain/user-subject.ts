import * as nip19 from 'nostr-tools/nip19';
import { parseRecipient, type RecipientAddress, withoutHost } from './recipient.ts';

const HEX_KEY = /^[0-9a-f]{64}$/i;

/**
 * Reads whom an operator means: an npub, a key in hex, a name or a Lightning address. What looks like a
 * key is one; no name is looked for by it.
 */
export function readUserSubject(text: string): RecipientAddress {
  const user = withoutHost(text.trim());
  return parseRecipient(HEX_KEY.test(user) ? nip19.npubEncode(user.toLowerCase()) : user);
}
