import { parseAddressInput } from '../../recipients/address-input.ts';
import { parseRecipientAddress } from '../../recipients/lightning-address.ts';
import { containsSecretKey, SECRET_KEY_WARNING } from './secret-key.ts';

/** Finds the payment page for what a payer entered ({@link parseAddressInput}), if it is on one of this server's hosts. */
export function findPaymentPath(
  text: string,
  hosts: readonly string[],
): { path: string } | { problem: string } {
  if (containsSecretKey(text)) {
    return { problem: SECRET_KEY_WARNING };
  }
  const { localPart, host } = parseAddressInput(text);
  if (host !== null && !hosts.includes(host)) {
    return {
      problem: `This address belongs to another server. Addresses here end with @${hosts[0]}.`,
    };
  }
  const { kind } = parseRecipientAddress(localPart);
  switch (kind) {
    case 'pubkey':
    case 'name':
      return { path: `/${localPart.toLowerCase()}` };
    case 'invalid_npub':
      return { problem: 'This npub is not valid. Check that it is complete.' };
    default:
      return { problem: 'This is neither a username nor an npub.' };
  }
}
