import { nip19 } from 'nostr-tools';
import { expect, it } from 'vitest';
import { parseTraceIdentifier } from '../../../src/operator/trace/trace-identifier.ts';
import { decodeInvoice } from '../../../src/quotes/bolt11.ts';
import { createUnpayableInvoice } from '../../helpers/mints/fake-mint-with-scripted-quotes.ts';

/** A valid public key: the x coordinate of secp256k1's generator point. */
const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const NPUB = nip19.npubEncode(PUBKEY);

const TOKEN = 'ab12'.repeat(16);

const QUOTE_ID = '01998a3e-6f5c-7d3a-9b1e-2c4d5e6f7a8b';

const invoice = createUnpayableInvoice(21_000);
const paymentHash = decodeInvoice(invoice)?.paymentHash ?? expect.fail();

it.each<[string, object[]]>([
  ...[invoice, invoice.toUpperCase(), `LIGHTNING:${invoice}`, ` ${invoice}\n`].map(
    (text): [string, object[]] => [text, [{ kind: 'payment_hash', value: paymentHash }]],
  ),
  ...[NPUB, NPUB.toUpperCase(), `${NPUB}@example.com`, `${NPUB}@[::1]:3000`, `nostr:${NPUB}`].map(
    (text): [string, object[]] => [text, [{ kind: 'pubkey', value: PUBKEY }]],
  ),
  [
    PUBKEY.toUpperCase(),
    [
      { kind: 'payment_hash', value: PUBKEY },
      { kind: 'pubkey', value: PUBKEY },
      { kind: 'verify_token', value: PUBKEY },
      { kind: 'name', value: PUBKEY },
      { kind: 'quote_id', value: PUBKEY.toUpperCase() },
    ],
  ],
  ...[
    `https://pay.example/lnurl/verify/${TOKEN}`,
    `pay.example/alice7/invoice/${TOKEN.toUpperCase()}`,
  ].map((text): [string, object[]] => [text, [{ kind: 'verify_token', value: TOKEN }]]),
  ...[
    'Alice7',
    'alice7@example.com',
    'https://pay.example/alice7',
    'pay.example/alice7?amount=21',
  ].map((text): [string, object[]] => [
    text,
    [
      { kind: 'name', value: 'alice7' },
      { kind: 'quote_id', value: text },
    ],
  ]),
  ...[QUOTE_ID, '-Ab_cdefghijklmnopqrstuvwxyz0123456789ABCDE', 'x.'.repeat(128), 'lnbc_short'].map(
    (quoteId): [string, object[]] => [quoteId, [{ kind: 'quote_id', value: quoteId }]],
  ),
])('parseTraceIdentifier returns what %j may identify, the likeliest first', (text, candidates) => {
  expect(parseTraceIdentifier(text)).toEqual({ outcome: 'parsed', candidates });
});

it.each([
  ['a truncated invoice', invoice.slice(0, -1), 'invalid_invoice'],
  ['a mistyped invoice', `${createUnpayableInvoice(1000).slice(0, -1)}b`, 'invalid_invoice'],
  ['a truncated npub', NPUB.slice(0, -1), 'invalid_npub'],
  ['an empty text', '', 'invalid_quote_id'],
  ['two words', 'two words', 'invalid_quote_id'],
  ['a quote id of more than 256 characters', 'x.'.repeat(129), 'invalid_quote_id'],
])('parseTraceIdentifier rejects %s', (_case, text, outcome) => {
  expect(parseTraceIdentifier(text)).toEqual({ outcome });
});
