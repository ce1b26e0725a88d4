import { bech32 } from '@scure/base';

/** Type numbers of tagged fields (BOLT 11). */
const FIELD_TYPES = { description: 13, description_hash: 23 } as const;

/** Lengths in bech32 words of 5 bits. */
const TIMESTAMP_WORDS = 7;
const SIGNATURE_WORDS = 104;

/** Returns the value of a tagged field (a hash in hex), or undefined if the invoice lacks the field. */
export function readInvoiceField(
  invoice: string,
  name: keyof typeof FIELD_TYPES,
): string | undefined {
  const { words } = bech32.decode(invoice as `${string}1${string}`, false);
  let remainingWords = words.slice(TIMESTAMP_WORDS, -SIGNATURE_WORDS);
  while (remainingWords.length > 0) {
    // A field has one word for its type, two for the length of its value, and then its value.
    const [type, lengthHigh = 0, lengthLow = 0] = remainingWords;
    const fieldEnd = 3 + lengthHigh * 32 + lengthLow;
    if (type === FIELD_TYPES[name]) {
      const value = Buffer.from(bech32.fromWords(remainingWords.slice(3, fieldEnd)));
      return value.toString(name === 'description' ? 'utf8' : 'hex');
    }
    remainingWords = remainingWords.slice(fieldEnd);
  }
  return undefined;
}
