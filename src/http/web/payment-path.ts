import { parseAddressInput } from '../../recipients/address-input.ts';
import { parseRecipientAddress } from '../../recipients/lightning-address.ts';
import { containsSecretKey, SECRET_KEY_WARNING } from './secret-key.ts';

/** Returns the path of the payment page for what a payer entered ({@link parseAddressInput}), or why there is none. */
export function findPaymentPath(
  text: string,
  ownHosts: readonly string[],
): { path: string } | { problem: string } {
  if (containsSecretKey(text)) {
    return { problem: SECRET_KEY_WARNING };
  }
  const { localPart, host } = parseAddressInput(text);
  if (host !== null && !ownHosts.includes(host)) {
    return {
      problem: `This address belongs to another server. Addresses here end with @${ownHosts[0]}.`,
    };
  }
  const { kind } = parseRecipientAddress(localPart);
  if (kind === 'pubkey' || kind === 'name') {
    return { path: `/${localPart.toLowerCase()}` };
  }
  return kind === 'invalid_npub'
    ? { problem: 'This npub is not valid. Check that it is complete.' }
    : { problem: 'This is neither a username nor an npub.' };
}
