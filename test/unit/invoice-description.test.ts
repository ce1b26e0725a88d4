import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { describeInvoice, type InvoiceWords } from '../../src/domain/invoice-description.ts';

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

describe('an invoice of a mint that takes hashes', () => {
  it('carries the hash of the metadata, and no comment beside it', () => {
    const expected = { descriptionHash: sha256Hex(WORDS.metadata) };
    expect(describeInvoice(HASHES, WORDS)).toEqual(expected);
    expect(describeInvoice(HASHES, { ...WORDS, comment: 'For tea' })).toEqual(expected);
    expect(describeInvoice({ ...HASHES, takesDescription: false }, WORDS)).toEqual(expected);
  });

  it('carries the hash of the zap request as it was signed', () => {
    const words = { ...WORDS, comment: 'For tea', zapRequest: ZAP_REQUEST };
    const expected = { descriptionHash: sha256Hex(ZAP_REQUEST) };
    expect(describeInvoice(HASHES, words)).toEqual(expected);
  });

  it('has the hash that LUD-06 payers compute, over UTF-8', () => {
    const metadata = '[["text/plain","ü🥜"]]';
    expect(describeInvoice(HASHES, { ...WORDS, metadata })).toEqual({
      descriptionHash: createHash('sha256')
        .update(new TextEncoder().encode(metadata))
        .digest('hex'),
    });
  });
});

describe('an invoice of a mint that takes descriptions', () => {
  it('names the recipient where nobody wrote anything', () => {
    expect(describeInvoice(LINES, WORDS)).toEqual({ description: WORDS.text });
  });

  it('says what the payer wrote', () => {
    expect(line('Für dich, αγάπη 👩‍👩‍👧')).toBe('Für dich, αγάπη 👩‍👩‍👧');
  });

  it('never says the zap request', () => {
    const zap = { ...WORDS, zapRequest: ZAP_REQUEST };
    expect(describeInvoice(LINES, zap)).toEqual({ description: WORDS.text });
    expect(describeInvoice(LINES, { ...zap, comment: 'gm' })).toEqual({ description: 'gm' });
  });

  it.each([
    ['lines', ' one\ntwo\r\n\r\nthree\u2028four\u0085five ', 'one two three four five'],
    ['tabs and blanks of all kinds', 'a\t\u00a0\u3000 b', 'a b'],
    ['control characters', 'a\u0000b\u001b[31mc\u007f', 'a b [31mc'],
    ['half a character', 'a\ud83eb', 'a b'],
  ])('says %s as one line', (_what, comment, expected) => {
    expect(line(comment)).toBe(expected);
  });

  it.each([
    ['nothing', ''],
    ['blanks', ' \t\u00a0 '],
    ['breaks', '\n\r\n'],
    ['control characters', '\u0000\u0007'],
    ['characters without a width', '\u200b\u2060\ufeff\u3164'],
    ['halves of characters', '\udc00\ud800'],
  ])('names the recipient where the comment is %s', (_what, comment) => {
    expect(line(comment)).toBe(WORDS.text);
  });

  it('is not described where the operator says nothing either', () => {
    expect(describeInvoice(LINES, { ...WORDS, text: ' ' })).toEqual({});
  });

  it.each([
    ['letters', 'x'.repeat(640), 'x'.repeat(639)],
    ['as much as fits', 'x'.repeat(639), 'x'.repeat(639)],
    ['letters of two bytes', 'é'.repeat(400), 'é'.repeat(319)],
    ['emoji', '🥜'.repeat(200), '🥜'.repeat(159)],
    ['emoji that are made of several', '👩‍👩‍👧'.repeat(50), '👩‍👩‍👧'.repeat(35)],
    ['a letter with its accent beside it', `${'x'.repeat(638)}e\u0301`, 'x'.repeat(638)],
    ['a word and a blank', `${'x'.repeat(638)} yy`, 'x'.repeat(638)],
  ])('is cut between characters: %s', (_what, comment, expected) => {
    expect(line(comment)).toBe(expected);
  });

  it('names the recipient where the comment is one character that does not fit', () => {
    expect(line(`e${'\u0301'.repeat(1_000)}`)).toBe(WORDS.text);
  });

  it('is one line of whole characters that fits, whatever was written', () => {
    fc.assert(
      fc.property(anyComment(), (comment) => {
        const said = line(comment) ?? '';
        expect(Buffer.byteLength(said)).toBeLessThanOrEqual(639);
        expect(said.isWellFormed()).toBe(true);
        expect(said).toBe(said.trim());
        expect(said).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
        expect(said).not.toBe('');
      }),
    );
  });
});

it('an invoice of a mint that takes neither is not described', () => {
  const words = { ...WORDS, comment: 'For tea', zapRequest: ZAP_REQUEST };
  expect(describeInvoice(NEITHER, words)).toEqual({});
});

function line(comment: string): string | undefined {
  return describeInvoice(LINES, { ...WORDS, comment }).description;
}

/** Of any 16-bit units, halves of characters among them, or of any characters. */
function anyComment(): fc.Arbitrary<string> {
  const units = fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 900 })
    .map((codes) => String.fromCharCode(...codes));
  return fc.oneof(units, fc.string({ unit: 'grapheme', maxLength: 900, size: 'max' }));
}

function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
