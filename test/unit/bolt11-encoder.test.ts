import { secp256k1 } from '@noble/curves/secp256k1.js';
import { bech32 } from '@scure/base';
import { expect, it } from 'vitest';
import { encodeInvoice } from '../../demo/test-mint/bolt11-encoder.ts';

const PAYMENT_HASH = '0001020304050607080900010203040506070809000102030405060708090102';

const CONTENTS = {
  amountMsat: 250_000_000,
  createdAt: 1_496_314_658,
  expirySeconds: 60,
  paymentHash: Buffer.from(PAYMENT_HASH, 'hex'),
  description: '1 cup coffee',
};

it('writes the example of BOLT 11, except for the signature', () => {
  const request = encodeInvoice(CONTENTS);
  const withoutSignatureAndChecksum = request.slice(0, -110);
  expect(withoutSignatureAndChecksum).toBe(
    'lnbc2500u1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqs' +
      'yqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4jsxqzpu9qrsgq',
  );
});

it('signs what it writes, so that strict wallets accept it', () => {
  const { prefix, words } = bech32.decode(encodeInvoice(CONTENTS) as `${string}1${string}`, false);
  const bits = words
    .slice(0, -104)
    .map((word) => word.toString(2).padStart(5, '0'))
    .join('');
  const bytes = bits.match(/.{1,8}/g)?.map((byte) => Number.parseInt(byte.padEnd(8, '0'), 2)) ?? [];
  const message = Buffer.concat([Buffer.from(prefix), Buffer.from(bytes)]);
  const signature = bech32.fromWords(words.slice(-104)).slice(0, 64);
  const publicKey = secp256k1.Point.BASE.toBytes();
  expect(secp256k1.verify(signature, message, publicKey)).toBe(true);
});
