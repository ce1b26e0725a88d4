import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { describeInvoice, type InvoiceWords } from '../../src/mints/invoice-description.ts';

const HASHES = { takesDescription: true, takesDescriptionHash: true };
const LINES = { takesDescription: true, takesDescriptionHash: false };
const NEITHER = { takesDescription: false, takesDescriptionHash: false };

const WORDS: InvoiceWords = {
  metadata: '[["text/plain","Payment to älice@post.example"]]',
  text: 'Payment to älice@post.example',
  comment: null,
  zapRequest: null,
};
const ZAP_REQUEST = '{"kind":9734,  "content":"🥜"}';

const METADATA_HASH = { descriptionHash: sha256Hex(WORDS.metadata) };
const NO_DESCRIPTION = { ...HASHES, takesDescription: false };
const ZAP = { zapRequest: ZAP_REQUEST };

// test/acceptance/comments.test.ts covers what payers see.
it.each<[typeof HASHES, Partial<InvoiceWords>, object]>([
  [HASHES, {}, METADATA_HASH],
  [HASHES, { comment: 'For tea' }, METADATA_HASH],
  [NO_DESCRIPTION, {}, METADATA_HASH],
  [HASHES, { ...ZAP, comment: 'For tea' }, { descriptionHash: sha256Hex(ZAP_REQUEST) }],
  [LINES, {}, { description: WORDS.text }],
  [LINES, { comment: 'For tea' }, { description: 'For tea' }],
  [LINES, ZAP, { description: WORDS.text }],
  [LINES, { ...ZAP, comment: 'gm' }, { description: 'gm' }],
  [LINES, { text: ' ' }, {}],
  [NEITHER, { ...ZAP, comment: 'For tea' }, {}],
])('describeInvoice for a mint with %j and %j', (mint, words, expected) => {
  expect(describeInvoice(mint, { ...WORDS, ...words })).toEqual(expected);
});

it.each([
  ['lines', ' one\ntwo\r\n\r\nthree\u2028four\u0085five ', 'one two three four five'],
  ['control characters', 'a\u0000b\u001b[31mc\u007f', 'a b [31mc'],
  ['an empty comment', '', WORDS.text],
  ['only whitespace', ' \t\u00a0\n\r\n ', WORDS.text],
  ['only zero-width characters', '\u200b\u2060\ufeff\u3164', WORDS.text],
  ['too many letters', 'x'.repeat(640), 'x'.repeat(639)],
  ['combined emoji', '👩‍👩‍👧'.repeat(50), '👩‍👩‍👧'.repeat(35)],
  ['a combining accent at the end', `${'x'.repeat(638)}e\u0301`, 'x'.repeat(638)],
  ['one character that does not fit', `e${'\u0301'.repeat(1_000)}`, WORDS.text],
])('the description is one line of at most 639 bytes: %s', (_case, comment, expected) => {
  expect(line(comment)).toBe(expected);
});

it('the description of any comment is one line of whole characters that fits', () => {
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
  return describeInvoice(LINES, { ...WORDS, comment }).description;
}

function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
