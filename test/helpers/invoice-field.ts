import { bech32 } from '@scure/base';

/** Types of the invoice fields that tests read (BOLT 11). */
const FIELD_TYPES = { description: 13, description_hash: 23 } as const;

const TIMESTAMP_WORDS = 7;
const SIGNATURE_WORDS = 104;

/** Returns the value of an invoice field (hashes in hex), or undefined if the invoice lacks it. */
export function readInvoiceField(
  request: string,
  name: keyof typeof FIELD_TYPES,
): string | undefined {
  const words = bech32.decode(request as `${string}1${string}`, false).words;
  let rest = words.slice(TIMESTAMP_WORDS, -SIGNATURE_WORDS);
  while (rest.length > 0) {
    const [type, high = 0, low = 0] = rest;
    const end = 3 + high * 32 + low;
    if (type === FIELD_TYPES[name]) {
      const bytes = Buffer.from(bech32.fromWords(rest.slice(3, end)));
      return bytes.toString(name === 'description' ? 'utf8' : 'hex');
    }
    rest = rest.slice(end);
  }
  return undefined;
}
