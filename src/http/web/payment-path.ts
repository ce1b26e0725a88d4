import { parseAddressInput } from '../../recipients/address-input.ts';
import { parseRecipientAddress } from '../../recipients/lightning-address.ts';
import { containsSecretKey } from './secret-key.ts';
import type { Message } from './translation.ts';

/** The network, the amount, and the separator of a BOLT 11 invoice. */
const INVOICE_START = /^ln(?:bc|tbs?|bcrt)(?:\d+[munp]?)?1/i;

const LINK_FIELDS = ['amount', 'unit', 'comment'];

/**
 * Returns the path of the payment page for what a payer entered ({@link parseAddressInput}), or why there is none. Keeps
 * the amount and the comment of a payment link.
 */
export function findPaymentPath(
  text: string,
  ownHosts: readonly string[],
): { path: string } | { problem: Message } {
  if (containsSecretKey(text)) {
    return { problem: { key: 'script.common.secretKey' } };
  }
  const [address = '', query = ''] = text.trim().split(/[?#]/, 2);
  const { localPart, host } = parseAddressInput(address);
  if (host !== null && !ownHosts.includes(host)) {
    return { problem: { key: 'home.otherServer', values: { host: ownHosts[0] ?? '' } } };
  }
  const { kind } = parseRecipientAddress(localPart);
  if (kind === 'pubkey' || kind === 'name') {
    const fields = [...new URLSearchParams(query)].filter(([name]) => LINK_FIELDS.includes(name));
    const search = fields.length > 0 ? `?${new URLSearchParams(fields)}` : '';
    return { path: `/${localPart.toLowerCase()}${search}` };
  }
  if (kind === 'invalid_npub') {
    return { problem: { key: 'home.invalidNpub' } };
  }
  // An invoice is longer than a name can be.
  return { problem: { key: INVOICE_START.test(localPart) ? 'home.invoice' : 'home.invalidName' } };
}
