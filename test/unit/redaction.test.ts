import { describe, expect, it } from 'vitest';
import { REDACTED, redact } from '../../src/redaction.ts';

const HEX_64 = '0123456789abcdef'.repeat(4);
const QUOTE_ID = '019abcde-1234-7000-8000-0123456789ab';
const TOKEN = `cashuB${'o2FteB'.repeat(20)}==`;
const JWT = `eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJudXRwb3N0In0.${'s'.repeat(43)}`;
const AUTH_EVENT = Buffer.from(JSON.stringify({ id: HEX_64, kind: 27_235, sig: HEX_64 })).toString(
  'base64',
);
const MINT_API_URL = 'https://m.example/v1';

describe('redact', () => {
  it.each<[string, string, string]>([
    ['a Cashu token', `spent: ${TOKEN}.`, `spent: ${REDACTED}.`],
    ['a token in a URL', `https://m.example/${TOKEN}?a=1`, `https://m.example/${REDACTED}?a=1`],
    ['a URL-encoded token', `/x?t=cashuA${'eyJ0'.repeat(4)}%2Bm&a=1`, `/x?t=${REDACTED}&a=1`],
    ['a NIP-98 authorization', `Nostr ${AUTH_EVENT}`, `Nostr ${REDACTED}`],
    ['a JWT', `(${JWT})`, `(${REDACTED})`],
    ['a secret key', `nsec1${'q'.repeat(58)}!`, `${REDACTED}!`],
    ['an encrypted secret key', `NCRYPTSEC1${'Q'.repeat(99)}`, REDACTED],
    ['a database password', 'postgres://nut:p@ss@db/nut', `postgres://${REDACTED}@db/nut`],
    [
      'a quote id',
      `GET ${MINT_API_URL}/mint/quote/bolt11/${QUOTE_ID}: 404`,
      `GET ${MINT_API_URL}/mint/quote/bolt11/${REDACTED}: 404`,
    ],
    [
      'a quote id that starts like the batch route',
      `${MINT_API_URL}/mint/quote/bolt11/check-${QUOTE_ID}`,
      `${MINT_API_URL}/mint/quote/bolt11/${REDACTED}`,
    ],
    ['a verify token', `/lnurl/verify/${HEX_64}?x`, `/lnurl/verify/${REDACTED}?x`],
    ['the token of an invoice page', `/alice/invoice/${HEX_64}`, `/alice/invoice/${REDACTED}`],
    ['a secret in quoted JSON', `No: {"secret" : "${HEX_64}"}`, `No: {"secret" : "${REDACTED}"}`],
    ['a secret in truncated JSON', `No: {"C":"02${HEX_64}`, `No: {"C":"${REDACTED}`],
    [
      'a quote id in nested JSON strings',
      nestInJson({ quote: QUOTE_ID, a: 1 }),
      nestInJson({ quote: REDACTED, a: 1 }),
    ],
  ])('removes %s', (_case, text, expected) => {
    expect(redact(text)).toBe(expected);
    const line = JSON.stringify({ msg: text, last: 1 });
    expect(JSON.parse(redact(line))).toEqual({ msg: expected, last: 1 });
  });

  it.each([
    `{"pubkey":"${HEX_64}","name":"alice","paymentHash":"${HEX_64}"}`,
    '{"mintUrl":"https://mint.example/cashu/api/v1/4gr9Xcmz3XEkUNwiBiQGoL"}',
    '{"route":"POST /v1/mint/quote/bolt11/check","url":"https://m.example/v1/mint/quote/bolt11/check"}',
    '{"errorId":"3f9c2a1b","route":"/lnurl/verify/:token"}',
    '{"message":"relation \\"quotes\\" does not exist"}',
    'at verify (/app/node_modules/jose/dist/webapi/jws/flattened/verify.js:20:3)',
    'Authorization with Nostr (NIP-98) or Bearer is required.',
    `creqA${'o2FpZ'.repeat(9)}, lnbc210n1p${'q'.repeat(99)}, alice@nutpost.example`,
  ])('keeps the text %s', (text) => {
    expect(redact(text)).toBe(text);
  });

  it.each(['Nostr ', '"secret":"', '\\"secret\\":\\"', 'a://', '?C=', '/verify/', 'eyJ', '\\'])(
    'takes less than 2 s of processor time for a million characters of repeated %j',
    (repeatedText) => {
      const before = process.cpuUsage();
      redact(repeatedText.repeat(1_000_000 / repeatedText.length));
      expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
    },
  );
});

function nestInJson(value: object): string {
  return JSON.stringify({ msg: JSON.stringify({ detail: JSON.stringify(value) }) });
}
