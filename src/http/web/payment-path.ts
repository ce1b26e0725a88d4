import { parseAddressInput } from '../../recipients/address-input.ts';
import { parseRecipientAddress } from '../../recipients/lightning-address.ts';
import { containsSecretKey, SECRET_KEY_WARNING } from './secret-key.ts';

const LINK_FIELDS = ['amount', 'comment'];

/**
 * Returns the path of the payment page for what a payer entered ({@link parseAddressInput}), or why there is none. Keeps
 * the amount and the comment of a payment link.
 */
export function findPaymentPath(
  text: string,
  ownHosts: readonly string[],
): { path: string } | { problem: string } {
  if (containsSecretKey(text)) {
    return { problem: SECRET_KEY_WARNING };
  }
  const [address = '', query = ''] = text.trim().split(/[?#]/, 2);
  const { localPart, host } = parseAddressInput(address);
  if (host !== null && !ownHosts.includes(host)) {
    return {
      problem: `This address belongs to another server. Addresses here end with @${ownHosts[0]}.`,
    };
  }
  const { kind } = parseRecipientAddress(localPart);
  if (kind === 'pubkey' || kind === 'name') {
    const fields = [...new URLSearchParams(query)].filter(([name]) => LINK_FIELDS.includes(name));
    const search = fields.length > 0 ? `?${new URLSearchParams(fields)}` : '';
    return { path: `/${localPart.toLowerCase()}${search}` };
  }
  return kind === 'invalid_npub'
    ? { problem: 'This npub is not valid. Check that it is complete.' }
    : { problem: 'This is neither a username nor an npub.' };
}
