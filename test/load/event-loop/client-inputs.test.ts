import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sendRawBytes } from '../../helpers/network/raw-http-requests.ts';
import { EcashPayer } from '../../helpers/recipients/ecash-payer.ts';
import { RecipientClient, TestQuoteSocket } from '../../helpers/recipients/recipient-client.ts';
import { TEST_ZAP_SECRET_KEY } from '../../helpers/relays/zap-requests.ts';
import { DISABLED_LIMITS_ENV } from '../../helpers/service/disabled-limits.ts';
import { expectShortDelay } from './expect-short-delay.ts';
import { fillArray, fillList, HOSTILE_JSON } from './hostile-json.ts';
import { type ServiceUnderAttack, startServiceUnderAttack } from './service-under-attack.ts';

/**
 * Sends the most expensive known inputs of clients to the service, one at a time. None may block its event loop for
 * long, whatever the rate limits for requests are.
 */

/** Almost the largest headers, the largest body, and the largest message to a quote socket. */
const HEADERS_BYTES = 62 * 1024;
const BODY_BYTES = 32 * 1024;
const SOCKET_MESSAGE_BYTES = 16 * 1024;

/** The JSON in the longest accepted credential, which has 8 KiB in base64, and in the longest zap request. */
const CREDENTIAL_JSON_BYTES = 6 * 1024;
const ZAP_REQUEST_BYTES = 6 * 1024;

const EVENT_BYTES = 450;

const LIST_PATH = '/api/v2/wallet/quotes';
const MINT_PATH = '/api/v2/user/mint';
const USERNAME_PATH = '/api/v2/user/username';

const PRICE_SAT = 256;
const MAX_SENT_PROOFS = 64;
const GENERATOR = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';

const HTML = { accept: 'text/html' };

const HEX_64 = 'a'.repeat(64);

let service: ServiceUnderAttack;
let wallet: RecipientClient;

beforeAll(async () => {
  service = await startServiceUnderAttack({
    ...DISABLED_LIMITS_ENV,
    LIMIT_SOCKET_MESSAGES: '10',
    TRUST_PROXY: '127.0.0.1',
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
    USERNAME_PRICE_SAT: String(PRICE_SAT),
  });
  wallet = new RecipientClient(service.origin);
  await service.runPaymentFlow();
});

afterAll(() => service.close());

const HOSTILE_TAGS: typeof HOSTILE_JSON = [
  ...HOSTILE_JSON,
  ['tags of one number', (bytes) => fillArray('[0]', bytes)],
  ['a tag of numbers', (bytes) => `[${fillArray('0', bytes - 2)}]`],
];

describe('the event loop is not blocked', () => {
  it.each(HOSTILE_TAGS)('by a NIP-98 event whose tags are %s', async (_name, createTags) => {
    for (const bytes of [CREDENTIAL_JSON_BYTES, HEADERS_BYTES * 0.75]) {
      const authorization = `Nostr ${encodeNip98Event(createTags(bytes - EVENT_BYTES))}`;
      await expectShortRequest(LIST_PATH, [401], { headers: { authorization } });
    }
  });

  it('by a signed NIP-98 event with 8 KiB of tags', async () => {
    const tags = Array.from({ length: 1_700 }, () => []);
    const authorization = wallet.signRequest(LIST_PATH, 'GET', { tags });
    await expectShortRequest(LIST_PATH, [200], { headers: { authorization } });
  });

  it.each(HOSTILE_JSON)('by a JWT with %s', async (_name, createJson) => {
    const header = '{"alg":"HS256"}';
    const json = createJson(CREDENTIAL_JSON_BYTES - 100);
    for (const parts of [
      [json, ''],
      [`{"alg":"HS256","crit":${json}}`, ''],
      [header, json],
      [header, createJson(HEADERS_BYTES * 0.75 - 100)],
    ]) {
      const authorization = `Bearer ${[...parts, 'a'].map(encodeBase64Url).join('.')}`;
      await expectShortRequest(LIST_PATH, [401], { headers: { authorization } });
    }
  });

  it.each([
    ...HOSTILE_JSON.map(([name, createJson]) => [name, createJson(BODY_BYTES)]),
    ...[
      ['letters', 'a'.repeat(32_000)],
      ['letters after a scheme', `https:${'a'.repeat(32_000)}`],
      ['slashes', `https:${'/'.repeat(32_000)}`],
      ['at signs', `https://${'@'.repeat(32_000)}`],
      ['spaces', `a${' '.repeat(32_000)}a`],
      ['escapes', `https://a/${'%41'.repeat(10_000)}`],
      ['path segments', `https://a${'/..'.repeat(10_000)}`],
      ['international labels', `https://${'é.'.repeat(10_000)}`],
      ['one international label', `https://${'é'.repeat(16_000)}`],
    ].map(([name, url]) => [`a mint URL of ${name}`, JSON.stringify({ mint_url: url })]),
  ] as [string, string][])('by a body with %s', async (_name, body) => {
    // With and without the hash of another body.
    for (const tags of [[], [['payload', HEX_64]]]) {
      const authorization = wallet.signRequest(MINT_PATH, 'PATCH', { tags });
      await expectShortRequest(MINT_PATH, [400, 401], {
        method: 'PATCH',
        headers: { authorization },
        body,
      });
    }
  });

  it.each([
    ['a long npub', `npub1${'q'.repeat(HEADERS_BYTES)}`],
    ['letters', 'a'.repeat(HEADERS_BYTES)],
    ['escapes', '%41'.repeat(HEADERS_BYTES / 3)],
    ['slashes', `a${'/'.repeat(HEADERS_BYTES)}`],
    ['question marks', '?'.repeat(HEADERS_BYTES)],
    ['ampersands', `?${'&'.repeat(HEADERS_BYTES)}`],
    ['different parameters', `?${fillList((index) => `a${index}=`, HEADERS_BYTES, '&')}`],
    ['repeated names', `?${fillList('name=', HEADERS_BYTES, '&')}`],
    ['repeated amounts', `?${fillList('amount=', HEADERS_BYTES, '&')}`],
    ['a long amount', `?amount=${'9'.repeat(HEADERS_BYTES)}`],
    ['many comments', `?amount=1000&${fillList('comment=a', HEADERS_BYTES, '&')}`],
    ['a long comment', `?amount=1000&comment=${'%F0%9F%98%80'.repeat(HEADERS_BYTES / 12)}`],
    ['many zap requests', `?amount=1000&${fillList('nostr=1', HEADERS_BYTES, '&')}`],
    ['a zap request of invalid parts', `?amount=1000&nostr={"${'%&'.repeat(HEADERS_BYTES / 2)}`],
    ['percent signs', `?name=${'%'.repeat(HEADERS_BYTES)}`],
  ])('by a URL with %s', async (_name, suffix) => {
    for (const path of [
      ...['/.well-known/lnurlp/a', '/.well-known/nostr.json', '/lnurl/verify/a', LIST_PATH],
      ...['/api/v2/names/', '/', '/a/invoice/', '/assets/a/'],
    ]) {
      await expectShortRequest(`${path}${suffix}`, [200, 400, 401, 404], { headers: HTML });
    }
  });

  it.each([
    ['ampersands', '&'.repeat(BODY_BYTES)],
    ['fields with different names', fillList((index) => `a${index}=`, BODY_BYTES - 100, '&')],
    ['many recipients', fillList('recipient=a', BODY_BYTES - 100, '&')],
    ['many comments', fillList('comment=a', BODY_BYTES - 100, '&')],
    ['percent signs', `recipient=${'%'.repeat(BODY_BYTES - 100)}`],
    ['a recipient of spaces', `recipient=a${'+'.repeat(BODY_BYTES - 100)}b`],
    ['a recipient of at signs', `recipient=${'@'.repeat(BODY_BYTES - 100)}`],
    ['a long npub', `recipient=npub1${'q'.repeat(BODY_BYTES - 100)}`],
    ['many schemes', `recipient=${'nostr:'.repeat(5_000)}`],
    ['beginnings of secret keys', `recipient=${'nsec1'.repeat(6_000)}&amount=NSEC1`],
    ['secret keys', `comment=${`nsec1${'q'.repeat(20)}+`.repeat(1_200)}`],
    ['an amount of digits', `amount=${'9'.repeat(BODY_BYTES - 100)}`],
    ['an amount of spaces', `amount=1${'+'.repeat(BODY_BYTES - 100)}1`],
    ['a long comment', `amount=1&comment=${'%F0%9F%98%80'.repeat(2_700)}`],
    ['characters to escape', `amount=0&comment=${'<'.repeat(BODY_BYTES - 100)}`],
  ])('by a form with %s', async (_name, body) => {
    const headers = { ...HTML, 'content-type': 'application/x-www-form-urlencoded' };
    for (const path of ['/', `/${wallet.npub}`]) {
      await expectShortRequest(path, [303, 400], { method: 'POST', headers, body });
    }
  });

  it.each([
    ...HOSTILE_TAGS.map(([name, createTags]) => [
      `tags that are ${name}`,
      createZapRequest(createTags(5_500)),
    ]),
    ...HOSTILE_JSON.map(([name, createJson]) => [name, createJson(ZAP_REQUEST_BYTES)]),
    [
      'URLs of relays',
      createZapRequest(`[["relays",${fillList((index) => `"wss://${index}.a"`, 5_000)}]]`),
    ],
    ['64 KiB of NUL characters', '\0'.repeat(HEADERS_BYTES / 3)],
    ['64 KiB of arrays', '['.repeat(HEADERS_BYTES / 3)],
  ] as [string, string][])('by a zap request with %s', async (_name, json) => {
    const encoded = encodeURIComponent(json);
    // If it is encoded twice and contains a `+`, it has up to four meanings.
    const encodedTwice = `%2B${encodeURIComponent(encoded)}`.replaceAll('%252C', '%252C%2B+');
    for (const value of [encoded, encodedTwice]) {
      const query = `amount=1000&nostr=${value.slice(0, HEADERS_BYTES - 100)}`;
      await expectShortRequest(`/.well-known/lnurlp/${wallet.npub}?${query}`, [200]);
    }
  });

  // Most are just below the maximum length.
  it.each([
    ['4,000 empty entries', cashuA(`{"token":[${Array(4_000).fill('{}')}]}`)],
    ['4,000 empty proofs', createToken(Array(4_000).fill('{}'))],
    [
      '64 proofs of another mint',
      createToken(Array.from({ length: 64 }, (_, i) => proofOf(`${i}`))),
    ],
    ['a secret of 11,000 characters', createToken([proofOf('['.repeat(11_000))])],
    ['nested JSON', cashuA('['.repeat(6_000) + ']'.repeat(6_000))],
    ['nested CBOR', cashuB('81'.repeat(12_000))],
    ['11,000 empty texts', cashuB(`992af8${'60'.repeat(11_000)}`)],
    ['a CBOR array of 2^32 items', cashuB('9affffffff')],
    [
      'a keyset id of 5,000 bytes for 900 proofs',
      cashuB(`a1617481a26169591388${'00'.repeat(5_000)}6170990384${'a2616340616101'.repeat(900)}`),
    ],
    ['four times the maximum length', `cashuB${'A'.repeat(62_000)}`],
  ])('by a token with %s', async (_name, token) => {
    await expectShortServiceDelay(() => requestUsername('wanted', token, 402));
  });

  it('by the payment for a username with as many proofs as can be sent', async () => {
    let purchases = 0;
    let token = '';
    const buyUsername = () => requestUsername(`bought${purchases}`, token, 201);
    await expectShortDelay(
      () => service.measureEventLoopDelayMs(buyUsername),
      service.pid,
      async () => {
        token = await mintTokenOfManyProofs();
        purchases += 1;
      },
    );
  });

  it.each([
    ['many headers', 'a: b\r\n'.repeat(9_000)],
    ['many equal headers', 'Accept: a\r\n'.repeat(5_000)],
    ['a long Host', `Host: ${'.:1'.repeat(HEADERS_BYTES / 3)}\r\n`],
    ['a long X-Forwarded-For', `X-Forwarded-For: ${'1,'.repeat(HEADERS_BYTES / 2)}\r\n`],
    [
      'an X-Forwarded-For of forged addresses',
      `X-Forwarded-For: ${'127.0.0.1,'.repeat(HEADERS_BYTES / 11)}198.51.100.1\r\n`,
    ],
    ['an X-Forwarded-For of digits', `X-Forwarded-For: ${'1'.repeat(HEADERS_BYTES)}\r\n`],
    ['an X-Forwarded-For of hextets', `X-Forwarded-For: ${'a:'.repeat(HEADERS_BYTES / 2)}\r\n`],
    ['an X-Forwarded-For of colons', `X-Forwarded-For: ${':'.repeat(HEADERS_BYTES)}\r\n`],
    ['an Authorization of spaces', `Authorization: Nostr a${' '.repeat(HEADERS_BYTES - 20)}b\r\n`],
    ['an Authorization of letters', `Authorization: ${'a'.repeat(HEADERS_BYTES)}\r\n`],
    ['a long Accept-Encoding', `Accept-Encoding: ${'gzip;q=0,'.repeat(HEADERS_BYTES / 9)}\r\n`],
    ['an Accept-Encoding of spaces', `Accept-Encoding: a${' '.repeat(HEADERS_BYTES - 20)}b\r\n`],
    ['a long Accept', `Accept: ${'text/html;q=0.1,'.repeat(HEADERS_BYTES / 16)}\r\n`],
    ['an Accept of spaces', `Accept: a${' '.repeat(HEADERS_BYTES - 20)}b\r\n`],
    ['a long If-None-Match', `If-None-Match: ${'"a",'.repeat(HEADERS_BYTES / 4)}\r\n`],
    ['a long Connection', `Connection: ${'close,'.repeat(HEADERS_BYTES / 6)}\r\n`],
    ['a long Content-Type', `Content-Type: ${'a;'.repeat(HEADERS_BYTES / 2)}\r\n`],
    ['a long User-Agent', `User-Agent: ${'a('.repeat(HEADERS_BYTES / 2)}\r\n`],
    ['a long X-Request-Id', `X-Request-Id: ${'a'.repeat(HEADERS_BYTES)}\r\n`],
  ])('by %s', async (_name, header) => {
    for (const path of [
      ...['/docs/show.js', LIST_PATH, '/.well-known/lnurlp/a?amount=1'],
      ...['/', '/nobody1', '/favicon.ico'],
    ]) {
      const request = `GET ${path} HTTP/1.1\r\n${header}Connection: close\r\n\r\n`;
      await expectShortServiceDelay(() => sendRawBytes(service.origin, request));
    }
  });

  it.each<[string, readonly string[]]>([
    ...HOSTILE_TAGS.map(([name, create]): [string, string[]] => [
      `with ${name}`,
      [
        create(SOCKET_MESSAGE_BYTES),
        ...[CREDENTIAL_JSON_BYTES, SOCKET_MESSAGE_BYTES * 0.7].map((bytes) =>
          createChallengeResponse(encodeNip98Event(create(bytes - EVENT_BYTES))),
        ),
      ],
    ]),
    ['with a credential of spaces', [createChallengeResponse(`a${' '.repeat(16_000)}b`)]],
    ['that arrives with thousands of others', Array<string>(5_000).fill('{"type":"ping"}')],
  ])('by a message to the quote socket %s', async (_name, messages) => {
    await expectShortServiceDelay(async () => {
      const socket = new TestQuoteSocket(service.origin);
      await socket.nextMessage();
      for (const message of messages) {
        socket.connection.send(message);
      }
      socket.send('ping');
      expect((await socket.nextMessage()).type).toMatch(/error|pong/);
      await socket.close();
    });
  });
});

interface RequestOptions {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
}

async function expectShortRequest(
  path: string,
  expectedStatuses: readonly number[],
  options: RequestOptions = {},
): Promise<void> {
  await expectShortServiceDelay(() => sendRequest(path, expectedStatuses, options));
}

async function sendRequest(
  path: string,
  expectedStatuses: readonly number[],
  { method = 'GET', headers = {}, body = '' }: RequestOptions,
): Promise<void> {
  const lines = Object.entries({
    host: new URL(service.origin).host,
    connection: 'close',
    'content-length': String(Buffer.byteLength(body)),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`;
  const response = await sendRawBytes(service.origin, request);
  expect(expectedStatuses, response).toContain(Number(response.split(' ', 2)[1]));
}

async function requestUsername(username: string, token: string, status: number): Promise<void> {
  const authorization = wallet.signRequest(USERNAME_PATH, 'POST');
  await sendRequest(USERNAME_PATH, [status], {
    method: 'POST',
    headers: { authorization, 'x-cashu': token },
    body: JSON.stringify({ username }),
  });
}

async function expectShortServiceDelay(sendInput: () => Promise<unknown>): Promise<void> {
  await expectShortDelay(() => service.measureEventLoopDelayMs(sendInput), service.pid);
}

function encodeNip98Event(tagsJson: string): string {
  return encodeBase64Url(createEvent(27_235, Math.floor(Date.now() / 1_000), tagsJson));
}

function createZapRequest(tagsJson: string): string {
  return createEvent(9_734, 1, tagsJson);
}

function createEvent(kind: number, createdAtSeconds: number, tagsJson: string): string {
  return (
    `{"kind":${kind},"created_at":${createdAtSeconds},"id":"${HEX_64}","pubkey":"${HEX_64}",` +
    `"sig":"${HEX_64}${HEX_64}","content":"","tags":${tagsJson}}`
  );
}

function createChallengeResponse(encodedEvent: string): string {
  return JSON.stringify({ type: 'challenge-response', payload: `Nostr ${encodedEvent}` });
}

function createToken(proofs: readonly string[]): string {
  return cashuA(`{"token":[{"mint":"https://a.example","proofs":[${proofs}]}]}`);
}

function proofOf(secret: string): string {
  return JSON.stringify({ id: '00'.repeat(8), amount: 1, secret, C: GENERATOR });
}

function cashuA(json: string): string {
  return `cashuA${encodeBase64Url(json)}`;
}

function cashuB(cbor: string): string {
  return `cashuB${Buffer.from(cbor, 'hex').toString('base64url')}`;
}

async function mintTokenOfManyProofs(): Promise<string> {
  const payer = await EcashPayer.open(service.mint);
  const { quote, request } = await payer.wallet.createMintQuoteBolt11(PRICE_SAT);
  service.mint.pay(request);
  const amounts = Array<number>(MAX_SENT_PROOFS).fill(PRICE_SAT / MAX_SENT_PROOFS);
  const minted = await payer.wallet.ops.mintBolt11(PRICE_SAT, quote).asRandom(amounts).run();
  // With `dleq`, the token would be too long.
  return payer.encodeToken(minted.map(({ dleq: _, ...proof }) => proof));
}

function encodeBase64Url(text: string): string {
  return Buffer.from(text).toString('base64url');
}
