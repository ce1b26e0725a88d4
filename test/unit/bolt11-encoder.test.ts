import { createHash } from 'node:crypto';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeInvoice, type InvoiceContents } from '../../src/demo/test-mint/bolt11-encoder.ts';
import { readInvoice } from '../../src/domain/bolt11.ts';
import { invoiceField } from '../helpers/invoice-field.ts';

/** Letters of an invoice: 65 bytes, and six for the checksum. */
const SIGNATURE_AND_CHECKSUM = 104 + 6;

test('an invoice is the very text that BOLT 11 gives as its example, but for the nonce of its signature', () => {
  const request = encodeInvoice(
    contents({
      amountMsat: 250_000_000,
      createdAt: 1496314658,
      expirySeconds: 60,
      description: '1 cup coffee',
    }),
    SPEC_SECRET_KEY,
  );
  expect(request.slice(0, -SIGNATURE_AND_CHECKSUM)).toBe(
    'lnbc2500u1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqs' +
      'yqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4jsxqzpu9qrsgq',
  );
});

test('every fact of an invoice is read back as it was written', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 2 ** 50 }),
      fc.integer({ min: 0, max: 2 ** 35 - 1 }),
      fc.integer({ min: 1, max: 2 ** 40 }),
      fc.string({ unit: 'binary', maxLength: 150 }),
      (amountMsat, createdAt, expirySeconds, description) => {
        const request = encodeInvoice(
          contents({ amountMsat, createdAt, expirySeconds, description }),
          SPEC_SECRET_KEY,
        );
        expect(readInvoice(request)).toEqual({
          paymentHash: hex(PAYMENT_HASH),
          amountMsat,
          createdAt,
          expiresAt: createdAt + expirySeconds,
        });
        expect(invoiceField(request, 'description')).toBe(description);
        expect(invoiceField(request, 'payment_secret')).toBe(hex(PAYMENT_SECRET));
      },
    ),
    { numRuns: 50 },
  );
});

test('the signature is right, in the form that all wallets take, and reveals the node that is paid', () => {
  for (let amountMsat = 1; amountMsat <= 20; amountMsat += 1) {
    const request = encodeInvoice(contents({ amountMsat }), SPEC_SECRET_KEY);
    const signature = Buffer.from(String(invoiceField(request, 'signature')), 'hex');
    const digest = createHash('sha256').update(signedPart(request)).digest();
    const recovered = secp256k1.recoverPublicKey(
      Buffer.concat([signature.subarray(64), signature.subarray(0, 64)]),
      digest,
      { prehash: false },
    );
    const payee = secp256k1.getPublicKey(SPEC_SECRET_KEY);
    expect(hex(recovered)).toBe(hex(payee));
    expect(
      secp256k1.verify(signature.subarray(0, 64), digest, payee, { prehash: false, lowS: true }),
    ).toBe(true);
  }
});

test('a single wrong character is noticed', () => {
  const request = encodeInvoice(contents({}), SPEC_SECRET_KEY);
  const wrong = request.replace(/.$/, (last) => (last === 'q' ? 'p' : 'q'));
  expect(readInvoice(wrong)).toBeNull();
});

test('a description that an invoice cannot hold is given by its hash', () => {
  const description = 'é'.repeat(320);
  const request = encodeInvoice(contents({ description }), SPEC_SECRET_KEY);
  expect(invoiceField(request, 'description_hash')).toBe(
    createHash('sha256').update(description).digest('hex'),
  );
  expect(invoiceField(request, 'description')).toBeUndefined();
});

/** The key, hash and secret of the examples in BOLT 11. */
const SPEC_SECRET_KEY = Buffer.from(
  'e126f68f7eafcc8b74f54d269fe206be715000f94dac067d1c04a8ca3b2db734',
  'hex',
);
const PAYMENT_HASH = Buffer.from(
  '0001020304050607080900010203040506070809000102030405060708090102',
  'hex',
);
const PAYMENT_SECRET = Buffer.alloc(32, 0x11);

function contents(differing: Partial<InvoiceContents>): InvoiceContents {
  return {
    amountMsat: 21_000,
    createdAt: 1_795_000_000,
    expirySeconds: 3600,
    paymentHash: PAYMENT_HASH,
    paymentSecret: PAYMENT_SECRET,
    description: '',
    ...differing,
  };
}

/** What BOLT 11 signs: the prefix as text, the words before the signature as bytes. */
function signedPart(request: string): Buffer {
  const SIGNATURE_AND_CHECKSUM = 104 + 6;
  const separator = request.lastIndexOf('1');
  const bits = [...request.slice(separator + 1, -SIGNATURE_AND_CHECKSUM)]
    .map((letter) => ALPHABET.indexOf(letter).toString(2).padStart(5, '0'))
    .join('');
  const bytes = bits.match(/.{1,8}/g)?.map((byte) => Number.parseInt(byte.padEnd(8, '0'), 2)) ?? [];
  return Buffer.concat([Buffer.from(request.slice(0, separator)), Buffer.from(bytes)]);
}

const ALPHABET = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l';

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
