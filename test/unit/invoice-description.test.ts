import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { chooseInvoiceDescription, type InvoiceText } from '../../src/quotes/lnurl-pay.ts';

const HASHES = { supportsDescription: true, supportsDescriptionHash: true };
const LINES = { supportsDescription: true, supportsDescriptionHash: false };
const NEITHER = { supportsDescription: false, supportsDescriptionHash: false };

const TEXT: InvoiceText = {
  lnurlMetadata: '[["text/plain","Payment to älice@post.example"]]',
  plainText: 'Payment to älice@post.example',
  comment: null,
  zapRequest: null,
};
const ZAP_REQUEST = '{"kind":9734,  "content":"🥜"}';

const METADATA_HASH = { descriptionHash: sha256Hex(TEXT.lnurlMetadata) };
const NO_DESCRIPTION = { ...HASHES, supportsDescription: false };
const ZAP = { zapRequest: ZAP_REQUEST };

// test/acceptance/lnurl-comments.test.ts covers what payers see.
it.each<[typeof HASHES, Partial<InvoiceText>, object]>([
  [HASHES, {}, METADATA_HASH],
  [HASHES, { comment: 'For tea' }, METADATA_HASH],
  [NO_DESCRIPTION, {}, METADATA_HASH],
  [HASHES, { ...ZAP, comment: 'For tea' }, { descriptionHash: sha256Hex(ZAP_REQUEST) }],
  [LINES, {}, { description: TEXT.plainText }],
  [LINES, { comment: 'For tea' }, { description: 'For tea' }],
  [LINES, ZAP, { description: TEXT.plainText }],
  [LINES, { ...ZAP, comment: 'gm' }, { description: 'gm' }],
  [LINES, { plainText: ' ' }, {}],
  [NEITHER, { ...ZAP, comment: 'For tea' }, {}],
])('chooses the description for a mint with %j and the text %j', (mint, changes, expected) => {
  expect(chooseInvoiceDescription(mint, { ...TEXT, ...changes })).toEqual(expected);
});

it.each([
  ['lines', ' one\ntwo\r\n\r\nthree\u2028four\u0085five ', 'one two three four five'],
  ['control characters', 'a\u0000b\u001b[31mc\u007f', 'a b [31mc'],
  ['an empty comment', '', TEXT.plainText],
  ['only whitespace', ' \t\u00a0\n\r\n ', TEXT.plainText],
  ['only zero-width characters', '\u200b\u2060\ufeff\u3164', TEXT.plainText],
  ['too many letters', 'x'.repeat(640), 'x'.repeat(639)],
  ['combined emoji', '👩‍👩‍👧'.repeat(50), '👩‍👩‍👧'.repeat(35)],
  ['a combining accent at the end', `${'x'.repeat(638)}e\u0301`, 'x'.repeat(638)],
  ['one character that does not fit', `e${'\u0301'.repeat(1_000)}`, TEXT.plainText],
])('returns one line of at most 639 bytes for %s', (_case, comment, expected) => {
  expect(line(comment)).toBe(expected);
});

it('returns one line of whole characters that fits for any comment', () => {
  const units = fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 900 })
    .map((codes) => String.fromCharCode(...codes));
  const comments = fc.oneof(units, fc.string({ unit: 'grapheme', maxLength: 900, size: 'max' }));
  fc.assert(
    fc.property(comments, (comment) => {
      const text = line(comment) ?? '';
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(639);
      expect(text.isWellFormed()).toBe(true);
      expect(text).toBe(text.trim());
      expect(text).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
      expect(text).not.toBe('');
    }),
  );
});

function line(comment: string): string | undefined {
  return chooseInvoiceDescription(LINES, { ...TEXT, comment }).description;
}

function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
