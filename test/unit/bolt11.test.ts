import { bech32 } from '@scure/base';
import { describe, expect, it } from 'vitest';
import { decodeInvoice } from '../../src/quotes/bolt11.ts';

/** From Nutshell 0.20.2, 21 sat, with an expiry. */
const FROM_NUTSHELL =
  'lnbc210n1p4spulq9qypqqqdqqxqrrsssp54hcsrwtrq8gldywy7gj6q85w7mxvk2hkrawq88669qvqdfm74rnqpp5zgrnl38awmq6k80h6yv529grdzurypanj7lug7qafz5j9gntj3sqzqfkz8krzgk06pe9c8zgx7p4fv7ssu3n77rsqr02awmv9wdt4y65lzd634ttdrk5tv3e2x0f08ckyq6pjt2g3hrapvl78flg54p5legqlhxhzc';

/** From cdk-mintd 0.18.3, 21 sat, without an expiry. */
const FROM_CDK =
  'lnbc210n1p4spal7dqqpp5agsrz9yct2fcn4npykqwmpppvy490ld8nkvj4m00cc89pujvqujqsp59g4z52329g4z52329g4z52329g4z52329g4z52329g4z52329g4q9qrsgqcqzysjuhcmn2a6wn8vkj87xgrc8gygl4z0chz70jwtp972hp84hwrarkn3kuuxa8du0w8p4m2rcehulcqgywflvmdqumn7utuf6vf8l6r5qcp37uqfx';

/** From Nutshell, 2,100,000,000,000,000,000 msat: more than exists. */
const BEYOND_ALL_MONEY =
  'lnbc210000001p4spulq9qypqqqdqqxqrrsssp5qxjc2f843w048u5n6vscdh4j0cwfakqfrt8xf0es5338jqxf6pjspp5fuvkq4x4tpzqp63pj6k4d6tngc4qpgmjwpusjnyfhr3hgv5ssstq04uq7nlzp34chf6rqy24uyyscsdarda702st3pemzm2nz322532p5nskhkpeewpgpqlrn5fa28uqj682ha6ay4ectfuq0pk3hm6gx6sqgx6ngp';

/** Examples of BOLT 11: an invoice for any amount, and one for the test network. */
const FOR_ANY_AMOUNT =
  'lnbc1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6twvus8g6rfwvs8qun0dfjkxaq9qrsgq357wnc5r2ueh7ck6q93dj32dlqnls087fxdwk8qakdyafkq3yap9us6v52vjjsrvywa6rt52cm9r9zqt8r2t7mlcwspyetp5h2tztugp9lfyql';
const FOR_TEST_MONEY =
  'lntb20m1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygshp58yjmdan79s6qqdhdzgynm4zwqd5d7xmw5fk98klysy043l2ahrqspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqfpp3x9et2e20v6pu37c5d9vax37wxq72un989qrsgqdj545axuxtnfemtpwkc45hx9d2ft7x04mt8q7y6t0k2dge9e7h8kpy9p34ytyslj3yu569aalz2xdk8xkd7ltxqld94u8h2esmsmacgpghe9k8';

describe('decodeInvoice', () => {
  it.each([
    [FROM_NUTSHELL, '12073fc4fd76c1ab1df7d11945150368b83207b397bfc4781d48a922a26b9460'],
    [FOR_TEST_MONEY, '0001020304050607080900010203040506070809000102030405060708090102'],
  ])('returns the payment hash', (request, paymentHash) => {
    expect(decodeInvoice(request)?.paymentHash).toBe(paymentHash);
  });

  it.each([
    ['with an expiry', FROM_NUTSHELL, 21_000, 1_795_224_544, 3_600],
    ['without one is good for an hour', FROM_CDK, 21_000, 1_795_225_598, 3_600],
    ['for any amount', FOR_ANY_AMOUNT, null, 1_496_314_658, 3_600],
    ['for the test network', FOR_TEST_MONEY, 2_000_000_000, 1_496_314_658, 3_600],
    ['beyond all money', BEYOND_ALL_MONEY, 2.1e18, 1_795_224_544, 3_600],
  ])('decodes an invoice %s', (_case, request, amountMsat, createdAt, lifeSeconds) => {
    const facts = {
      amountMsat,
      createdAtSeconds: createdAt,
      expiresAtSeconds: createdAt + lifeSeconds,
    };
    expect(decodeInvoice(request)).toMatchObject(facts);
    expect(decodeInvoice(request.toUpperCase())).toMatchObject(facts);
  });

  it.each([
    ['nothing', ''],
    ['a word', 'invoice'],
    ['an address', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4'],
    ['an invoice with one wrong letter', FROM_CDK.replace('pp5a', 'pp5c')],
    ['an invoice with another amount', FROM_CDK.replace('lnbc210n', 'lnbc220n')],
    ['an invoice that is cut off', FROM_CDK.slice(0, -1)],
    ['an invoice in both cases', FROM_CDK.replace('lnbc', 'LNBC')],
    ['something very long', `lnbc1${'q'.repeat(100_000)}`],
  ])('returns null for %s', (_case, text) => {
    expect(decodeInvoice(text)).toBeNull();
  });

  it.each([
    ['does not fit in', [1, 2, 0]],
    ['is cut off in its head', [13, 0]],
  ])('returns null for an invoice with a field that %s', (_case, cutOff) => {
    const whole = [1, 12, 18, 31, 28, 25, 1, 1, 1, 20, ...new Array<number>(52).fill(0)];
    expect(decodeInvoice(encode('lnbc', whole))).not.toBeNull();
    expect(decodeInvoice(encode('lnbc', [...whole, ...cutOff]))).toBeNull();
    // The padding bits of the payment hash are not zero.
    expect(decodeInvoice(encode('lnbc', [...whole.slice(0, -1), 1]))).toBeNull();
  });
});

/** Has a blank signature, which is not checked. */
function encode(prefix: string, words: number[]): string {
  return bech32.encode(prefix, [...words, ...new Array<number>(104).fill(0)], false);
}
