import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { chooseInvoiceDescription, type PaymentDetails } from '../../../src/quotes/lnurl-pay.ts';

const SUPPORTS_BOTH = { supportsDescription: true, supportsDescriptionHash: true };
const SUPPORTS_DESCRIPTION = { supportsDescription: true, supportsDescriptionHash: false };
const SUPPORTS_NEITHER = { supportsDescription: false, supportsDescriptionHash: false };

/** The maximum in a BOLT 11 invoice. */
const MAX_DESCRIPTION_BYTES = 639;

const PLAIN_TEXT = 'Payment to älice@post.example';

const PAYMENT_DETAILS: PaymentDetails = {
  lnurlMetadata: JSON.stringify([['text/plain', PLAIN_TEXT]]),
  tag: null,
  comment: null,
  zapRequest: null,
  receiptRefusal: null,
};
const ZAP_REQUEST = '{"kind":9734,  "content":"🥜"}';

const HASH_OF_METADATA = { descriptionHash: sha256Hex(PAYMENT_DETAILS.lnurlMetadata) };
const WITH_ZAP = { zapRequest: ZAP_REQUEST };

// test/acceptance/lnurl-comments.test.ts covers the invoices that payers receive.
it.each<[typeof SUPPORTS_BOTH, Partial<PaymentDetails>, object]>([
  [SUPPORTS_BOTH, {}, HASH_OF_METADATA],
  [SUPPORTS_BOTH, { ...WITH_ZAP, comment: 'For tea' }, { descriptionHash: sha256Hex(ZAP_REQUEST) }],
  [SUPPORTS_DESCRIPTION, {}, { description: PLAIN_TEXT }],
  [SUPPORTS_DESCRIPTION, { comment: 'For tea' }, { description: 'For tea' }],
  [SUPPORTS_DESCRIPTION, WITH_ZAP, { description: PLAIN_TEXT }],
  [SUPPORTS_DESCRIPTION, { ...WITH_ZAP, comment: 'gm' }, { description: 'gm' }],
  [SUPPORTS_NEITHER, { ...WITH_ZAP, comment: 'For tea' }, {}],
])(
  'chooses the description for a mint with %j and an invoice with %j',
  (mint, changes, expected) => {
    expect(chooseInvoiceDescription(mint, { ...PAYMENT_DETAILS, ...changes })).toEqual(expected);
  },
);

it.each([
  [
    'a comment of several lines',
    ' one\ntwo\r\n\r\nthree\u2028four\u0085five ',
    'one two three four five',
  ],
  ['a comment with control characters', 'a\u0000b\u001b[31mc\u007f', 'a b [31mc'],
  ['an empty comment', '', PLAIN_TEXT],
  ['a comment of zero-width characters', '\u200b\u2060\ufeff\u3164', PLAIN_TEXT],
  [
    'a comment that just fits',
    'x'.repeat(MAX_DESCRIPTION_BYTES),
    'x'.repeat(MAX_DESCRIPTION_BYTES),
  ],
  ['a comment that is too long', `${'x'.repeat(638)}é`, PLAIN_TEXT],
])('returns one line of at most 639 bytes for %s', (_case, comment, expected) => {
  expect(describeComment(comment)).toBe(expected);
});

it('returns one well-formed line of at most 639 bytes for any comment', () => {
  const utf16Strings = fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 900 })
    .map((codes) => String.fromCharCode(...codes));
  const comments = fc.oneof(
    utf16Strings,
    fc.string({ unit: 'grapheme', maxLength: 900, size: 'max' }),
  );
  fc.assert(
    fc.property(comments, (comment) => {
      const description = describeComment(comment) ?? '';
      expect(Buffer.byteLength(description)).toBeLessThanOrEqual(MAX_DESCRIPTION_BYTES);
      expect(description.isWellFormed()).toBe(true);
      expect(description).toBe(description.trim());
      expect(description).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
      expect(description).not.toBe('');
    }),
  );
});

function describeComment(comment: string): string | undefined {
  return chooseInvoiceDescription(SUPPORTS_DESCRIPTION, { ...PAYMENT_DETAILS, comment })
    .description;
}

function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
