import { bech32 } from '@scure/base';
import { describe, expect, it } from 'vitest';
import { decodeInvoice, resolveQuoteExpirySeconds } from '../../../src/quotes/bolt11.ts';

/** From Nutshell 0.20.2: 21 sat, with an expiry field. */
const NUTSHELL_INVOICE =
  'lnbc210n1p4spulq9qypqqqdqqxqrrsssp54hcsrwtrq8gldywy7gj6q85w7mxvk2hkrawq88669qvqdfm74rnqpp5zgrnl38awmq6k80h6yv529grdzurypanj7lug7qafz5j9gntj3sqzqfkz8krzgk06pe9c8zgx7p4fv7ssu3n77rsqr02awmv9wdt4y65lzd634ttdrk5tv3e2x0f08ckyq6pjt2g3hrapvl78flg54p5legqlhxhzc';

/** From cdk-mintd 0.18.3: 21 sat, without an expiry field. */
const CDK_INVOICE =
  'lnbc210n1p4spal7dqqpp5agsrz9yct2fcn4npykqwmpppvy490ld8nkvj4m00cc89pujvqujqsp59g4z52329g4z52329g4z52329g4z52329g4z52329g4z52329g4q9qrsgqcqzysjuhcmn2a6wn8vkj87xgrc8gygl4z0chz70jwtp972hp84hwrarkn3kuuxa8du0w8p4m2rcehulcqgywflvmdqumn7utuf6vf8l6r5qcp37uqfx';

/** From Nutshell: 21 million bitcoin, the largest amount that decodeInvoice accepts. */
const MAX_AMOUNT_INVOICE =
  'lnbc210000001p4spulq9qypqqqdqqxqrrsssp5qxjc2f843w048u5n6vscdh4j0cwfakqfrt8xf0es5338jqxf6pjspp5fuvkq4x4tpzqp63pj6k4d6tngc4qpgmjwpusjnyfhr3hgv5ssstq04uq7nlzp34chf6rqy24uyyscsdarda702st3pemzm2nz322532p5nskhkpeewpgpqlrn5fa28uqj682ha6ay4ectfuq0pk3hm6gx6sqgx6ngp';

/** Examples from BOLT 11: an invoice without an amount, and one for testnet. */
const ANY_AMOUNT_INVOICE =
  'lnbc1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6twvus8g6rfwvs8qun0dfjkxaq9qrsgq357wnc5r2ueh7ck6q93dj32dlqnls087fxdwk8qakdyafkq3yap9us6v52vjjsrvywa6rt52cm9r9zqt8r2t7mlcwspyetp5h2tztugp9lfyql';
const TESTNET_INVOICE =
  'lntb20m1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygshp58yjmdan79s6qqdhdzgynm4zwqd5d7xmw5fk98klysy043l2ahrqspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqfpp3x9et2e20v6pu37c5d9vax37wxq72un989qrsgqdj545axuxtnfemtpwkc45hx9d2ft7x04mt8q7y6t0k2dge9e7h8kpy9p34ytyslj3yu569aalz2xdk8xkd7ltxqld94u8h2esmsmacgpghe9k8';

const DEFAULT_EXPIRY_SECONDS = 3_600;

describe('decodeInvoice', () => {
  it('returns the payment hash', () => {
    expect(decodeInvoice(NUTSHELL_INVOICE)?.paymentHash).toBe(
      '12073fc4fd76c1ab1df7d11945150368b83207b397bfc4781d48a922a26b9460',
    );
  });

  it.each([
    ['with an expiry field', NUTSHELL_INVOICE, 21_000, 1_795_224_544, 3_600],
    ['without an expiry field', CDK_INVOICE, 21_000, 1_795_225_598, DEFAULT_EXPIRY_SECONDS],
    ['without an amount', ANY_AMOUNT_INVOICE, null, 1_496_314_658, DEFAULT_EXPIRY_SECONDS],
    ['for testnet', TESTNET_INVOICE, 2_000_000_000, 1_496_314_658, DEFAULT_EXPIRY_SECONDS],
    ['for 21 million bitcoin', MAX_AMOUNT_INVOICE, 2.1e18, 1_795_224_544, 3_600],
  ])('decodes an invoice %s', (_case, request, amountMsat, createdAtSeconds, expirySeconds) => {
    const expected = {
      amountMsat,
      createdAtSeconds,
      expiresAtSeconds: createdAtSeconds + expirySeconds,
    };
    expect(decodeInvoice(request)).toMatchObject(expected);
    expect(decodeInvoice(request.toUpperCase())).toMatchObject(expected);
  });

  it.each([
    ['an empty text', ''],
    ['a Bitcoin address', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4'],
    ['an invoice with one wrong character', CDK_INVOICE.replace('pp5a', 'pp5c')],
    ['a truncated invoice', CDK_INVOICE.slice(0, -1)],
    ['a text of 100,000 characters', `lnbc1${'q'.repeat(100_000)}`],
  ])('returns null for %s', (_case, text) => {
    expect(decodeInvoice(text)).toBeNull();
  });

  const TIMESTAMP = [1, 12, 18, 31, 28, 25, 1];
  /** Type 1, a length of 1 * 32 + 20 = 52 words, and an all-zero hash. */
  const PAYMENT_HASH_FIELD = [1, 1, 20, ...new Array<number>(52).fill(0)];
  const VALID_WORDS = [...TIMESTAMP, ...PAYMENT_HASH_FIELD];

  it.each([
    ['a field that extends beyond its end', [...VALID_WORDS, 1, 2, 0]],
    ['a field without a complete length', [...VALID_WORDS, 13, 0]],
    ['a payment hash whose padding bits are not zero', [...VALID_WORDS.slice(0, -1), 1]],
  ])('returns null for an invoice with %s', (_case, invalidWords) => {
    expect(decodeInvoice(encodeInvoice(VALID_WORDS))).not.toBeNull();
    expect(decodeInvoice(encodeInvoice(invalidWords))).toBeNull();
  });
});

describe('resolveQuoteExpirySeconds', () => {
  // All values are in seconds. Times are Unix times.
  const CREATED_AT = 1_800_000_000;
  /** The clock of the service differs from the clock of the mint. */
  const NOW = CREATED_AT + 5;
  const YEAR = 365 * 24 * 60 * 60;
  const INVOICE_EXPIRES_AT = CREATED_AT + 3_600;
  const INVOICE = {
    paymentHash: 'ab'.repeat(32),
    amountMsat: 21_000,
    createdAtSeconds: CREATED_AT,
    expiresAtSeconds: INVOICE_EXPIRES_AT,
  };

  it.each([
    ["the mint's expiry", CREATED_AT + 600, CREATED_AT + 600],
    ["the invoice's expiry for a time before the creation", CREATED_AT - 10, INVOICE_EXPIRES_AT],
    ["the invoice's expiry for a duration", 3_600, INVOICE_EXPIRES_AT],
    ["the invoice's expiry for 0", 0, INVOICE_EXPIRES_AT],
    ["the mint's expiry in seconds for milliseconds", (CREATED_AT + 600) * 1_000, CREATED_AT + 600],
    ["the mint's expiry in whole seconds for a fraction", CREATED_AT + 600.9, CREATED_AT + 600],
    ['a year from now for a later expiry', CREATED_AT + 2 * YEAR, NOW + YEAR],
  ])('returns %s', (_case, mintExpiry, expected) => {
    expect(resolveQuoteExpirySeconds(mintExpiry, INVOICE, NOW)).toBe(expected);
  });

  it.each([
    ['expires later', { expiresAtSeconds: CREATED_AT + 100 * YEAR }],
    [
      'was created in the far future',
      { createdAtSeconds: CREATED_AT + 1_000 * YEAR, expiresAtSeconds: CREATED_AT + 1_001 * YEAR },
    ],
  ])('returns a year from now if the invoice %s', (_case, times) => {
    expect(resolveQuoteExpirySeconds(null, { ...INVOICE, ...times }, NOW)).toBe(NOW + YEAR);
  });
});

/** Appends an all-zero signature, because decodeInvoice does not check signatures. */
function encodeInvoice(words: number[]): string {
  return bech32.encode('lnbc', [...words, ...new Array<number>(104).fill(0)], false);
}
