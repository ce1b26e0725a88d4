import { gzipSync } from 'node:zlib';
import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import type { RecipientClient } from '../../helpers/recipients/recipient-client.ts';

/** The service accepts the JWT only with {@link USER_AGENT}. */
export interface FuzzUser {
  wallet: RecipientClient;
  jwt: string;
}

export interface FuzzTargets {
  users: readonly FuzzUser[];
  mintUrl: string;
}

export interface RequestCase {
  bytes: Buffer;
  method: string;
  target: string;
  /** Whether the server must respond. It may close the connection before it reads the whole of a huge body. */
  isResponseRequired: boolean;
  /** A string in the request that no response may contain. */
  marker: string;
}

type Headers = readonly (readonly [name: string, value: string])[];

export const USER_AGENT = 'fuzzer/1.0';

const NESTING_DEPTH = 10_000;

const ENDPOINTS: readonly (readonly [string, string, string?, ...string[]])[] = [
  ['GET', '/api/v2/info'],
  ['GET', '/api/v2/wallet/quotes', '', 'since', 'limit', 'offset'],
  ['GET', '/api/v2/wallet/summary'],
  ['GET', '/api/v2/user/info'],
  ['GET', '/api/v2/user/addresses'],
  ['GET', '/api/v2/user/mint'],
  ['PATCH', '/api/v2/user/mint', 'mint_url'],
  ['PATCH', '/api/v2/user/lock', 'lockQuotes'],
  ['POST', '/api/v2/user/username', 'username'],
  ['GET', '/api/v2/auth/nip98'],
  ['GET', '/api/v2/ws/quote'],
  ['GET', '/.well-known/lnurlp/{user}', '', 'amount', 'comment', 'nonce'],
  ['GET', '/lnurl/verify/{token}'],
  ['GET', '/.well-known/nostr.json', '', 'name'],
  ['GET', '/api/v2/names/{name}'],
];

const METHODS = [
  ...['GET', 'POST', 'PATCH', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE'],
  ...['get', 'BREW', 'G\u0001T'],
];

const TEXTS = [
  ...['', ' ', '0', '-1', '1e3', '1.5', '0x3e8', '1_000', '%31000', '1000%00', 'NaN', 'null'],
  ...['9'.repeat(30), '9007199254740993', '9223372036854775808', '1e99999', 'A', 'x=y;'],
  ...['%', '%0', '%zz', '%00', '%20', '%c0%af', '%c3%28', '%ff%fe', '%F0%9F%9C%81', '%2e/'],
  ...['/', '//', '/./', '/x/../', '\\', '?', '#x', '&&=&=', '[]=1', '[x]=1', ';x=1', '*', ','],
  ...["'; --", '{}[]"', '<script>', '__proto__', 'constructor', 'hasOwnProperty', 'x@y.test'],
  ...['br, *;q=0', 'bytes=-1', 'h2c', 'close', 'text/html', 'DELETE', '🜁', '\u202e'],
];

const VALUES = [
  ...['null', 'true', '0', '-1', '1.5', '1e308', '-0', '9007199254740993', '1e-300', '[[[]]]'],
  ...['""', '"0"', '" "', '"\\u0000"', '"\\ud800"', '"\\u202e"', '"🜁"', '["a",null,1]'],
  ...['{"length":-1,"toString":"no function","then":{},"__proto__":{}}'],
  ...['1e99999', '-', '01', 'NaN', '"\\u00"', "'x'", '"\u0001"', ''],
];

const CONTENT_TYPES = [
  ...new Array<string>(6).fill('application/json'),
  ...['application/json; charset=utf-16', 'application/x-www-form-urlencoded', '*/*', ';', ''],
];

const HEADER_NAMES = [
  ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'forwarded', 'x-original-url'],
  ...['origin', 'cookie', 'accept', 'accept-encoding', 'accept-version', 'range', 'expect', 'te'],
  ...['upgrade', 'sec-websocket-key', 'access-control-request-method', 'x-http-method-override'],
  ...['access-control-request-headers', 'request-id', 'x-cashu', '__proto__', 'x'.repeat(1_000)],
];

export function generateRequestCase(
  random: SeededRandom,
  { users, mintUrl }: FuzzTargets,
): RequestCase {
  const [usualMethod, template, field = '', ...parameters] = random.pick(ENDPOINTS);
  const path = template
    .replace('{user}', () => maybeMutate(random, random.pick(users).wallet.npub))
    .replace('{token}', () => maybeMutate(random, 'abc4'.repeat(16)))
    .replace('{name}', () => maybeMutate(random, 'alice'));
  const requestPath = random.chance(0.3) ? mutatePath(random, path) : path;
  const query = random.chance(0.5)
    ? generateQuery(random, random.pick([...parameters, 'amount']))
    : '';
  // An unencoded space or line break ends the request target, so most requests encode these characters.
  const rawTarget = requestPath + query;
  const target = random.chance(0.1) ? rawTarget : rawTarget.replace(/[^!-~]/g, percentEncode);
  const method = random.chance(0.1) ? random.pick(METHODS) : usualMethod;
  const authorization = generateAuthorization(
    random,
    random.pick(users),
    target.replace(/\?.*$/, ''),
    method,
  );
  const marker = generateMarker(random);
  const hasBody = (!['GET', 'HEAD'].includes(method) && field !== '') || random.chance(0.15);
  const body = hasBody ? generateBody(random, field || 'field', mintUrl) : null;
  const headers: Headers = [
    ['host', 'x'],
    ['connection', 'close'],
    ['user-agent', USER_AGENT],
    ...(authorization === null ? [] : [['authorization', authorization] as const]),
    ...(field === 'username' && random.chance(0.6)
      ? [['x-cashu', generatePayment(random, mintUrl)] as const]
      : []),
    ...(random.chance(0.4) ? generateHeaders(random, marker) : []),
    ...(body === null
      ? []
      : [...body.headers, ['content-length', `${body.bytes.length}`] as const]),
  ];
  const headerLines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const head = Buffer.from(`${method} ${target} HTTP/1.1\r\n${headerLines}\r\n`);
  return {
    bytes: body === null ? head : Buffer.concat([head, body.bytes]),
    method,
    target: target.replace(/^https?:\/\/[^/?#]*/i, ''),
    isResponseRequired: (body?.bytes.length ?? 0) <= 256 * 1024,
    marker,
  };
}

function generateMarker(random: SeededRandom): string {
  return `m4rk${Math.floor(random.next() * 2 ** 40).toString(36)}`;
}

export function mutate(random: SeededRandom, original: string, maxLength = 3_000): string {
  const position = Math.floor(random.next() * original.length);
  const before = original.slice(0, position);
  const after = original.slice(position);
  const text = random.pick(TEXTS);
  const length = 1 + Math.floor(random.next() ** 3 * maxLength);
  return random.pick([
    text,
    (text || 'x').repeat(Math.ceil(length / (text.length || 1))).slice(0, length),
    before,
    after,
    before + after.slice(1),
    before + text + after,
    before + String.fromCharCode((original.charCodeAt(position) ^ 1) & 0x7f) + after.slice(1),
    original + original,
    original.toUpperCase(),
  ]);
}

/** Generates an `Authorization` header. Half of them are valid, because most code runs after authentication. */
function generateAuthorization(
  random: SeededRandom,
  { wallet, jwt }: FuzzUser,
  pathname: string,
  method: string,
): string | null {
  const signedEvent = wallet.signRequest(pathname, method);
  return random.pick([
    ...new Array<string>(3).fill(signedEvent),
    ...new Array<string>(3).fill(`Bearer ${jwt}`),
    null,
    `${random.pick(['Nostr', 'Bearer', 'Basic', ''])} ${mutate(random, 'x', 4_000)}`,
    `Nostr ${encodeBase64('['.repeat(NESTING_DEPTH))}`,
    `Nostr ${encodeBase64(random.pick(VALUES))}`,
    `Nostr ${corruptBase64(random, signedEvent.slice('Nostr '.length))}`,
    `Bearer ${corruptBase64(random, jwt)}`,
  ]);
}

function percentEncode(character: string): string {
  return Buffer.from(character).toString('hex').replace(/../g, '%$&');
}

function maybeMutate(random: SeededRandom, original: string): string {
  return random.chance(0.5) ? original : mutate(random, original, 20_000);
}

function mutatePath(random: SeededRandom, path: string): string {
  const position = 1 + Math.floor(random.next() * (path.length - 1));
  return random.pick([
    mutate(random, path, 5_000).replace(/^\/?/, '/'),
    `/${path}`,
    path.replaceAll('/', random.pick(['//', '/./', '/x/../', '%2f', '\\', '/%2e/'])),
    path + random.pick(TEXTS),
    path.slice(0, position) + percentEncode(path.charAt(position)) + path.slice(position + 1),
    `http://${random.pick(['elsewhere.test', 'x', '127.0.0.1:1', '[::1]'])}${path}`,
    `${path}/${'x'.repeat(random.pick([100, 5_000, 70_000]))}`,
    random.pick(['/', '*', '', 'x', '//', '/api', '/..//..', '/__proto__', '?']),
  ]);
}

function generateQuery(random: SeededRandom, name: string): string {
  const value = random.pick(['21000', '21000', mutate(random, '21000', 5_000)]);
  return random.pick([
    `?${name}=${value}`,
    `?${name}=${value}&${name}=${random.pick(TEXTS)}`,
    `?${name}=${value}&${mutate(random, 'offset=1')}`,
    `?${name}[]=${value}`,
    `?__proto__=${value}&__proto__[${name}]=1&constructor=1&hasOwnProperty=1`,
    `?${name}`,
    `??${mutate(random, `${name}=${value}&`)}`,
    `?${`${name}=${value.slice(0, 20)}&`.repeat(2_000)}`,
    `?nostr=${encodeURIComponent(JSON.stringify({ kind: 9734, tags: [[random.pick(VALUES)]] }))}`,
  ]);
}

function generateHeaders(random: SeededRandom, marker: string): Headers {
  const count = 1 + Math.floor(random.next() ** 3 * 30);
  return Array.from({ length: count }, (): [string, string] => [
    random.pick([...HEADER_NAMES, `x-${marker}`]),
    random.pick([
      marker,
      `https://${marker}.test`,
      mutate(random, marker).replace(/[^\t -~]/g, 'x'),
    ]),
  ]);
}

/** Generates an invalid payment for a username (NUT-24). unit/cashu-token.test.ts covers more invalid tokens. */
function generatePayment(random: SeededRandom, mintUrl: string): string {
  const proof = { id: '009a1f293253e41e', amount: 32, secret: 'x', C: `02${'ab'.repeat(32)}` };
  const token = `cashuA${encodeBase64(JSON.stringify({ token: [{ mint: mintUrl, proofs: [proof] }] }))}`;
  return random.pick([token, mutate(random, token).replace(/[^\t -~]/g, 'x'), 'c'.repeat(60_000)]);
}

function generateBody(
  random: SeededRandom,
  field: string,
  mintUrl: string,
): { bytes: Buffer; headers: Headers } {
  // Mint URLs must not point outside of this machine.
  const validValue = JSON.stringify(
    { mint_url: random.pick([mintUrl, 'http://127.0.0.1:1']), lockQuotes: true }[field] ?? 'alice',
  );
  const value = random.pick(VALUES);
  const document = random.pick([
    ...new Array<string>(4).fill(`{"${field}":${validValue}}`),
    `{"${field}":${value}}`,
    `{"${field}":${validValue},"${field}":${value}}`,
    `{"__proto__":{"${field}":${validValue}},"toString":1,"then":1,"":${value}}`,
    value,
    `${'['.repeat(NESTING_DEPTH)}${']'.repeat(NESTING_DEPTH)}`,
    mutate(random, `{"${field}":"alice"}`, 31_000),
    `{"${field}":"${'x'.repeat(Math.floor(random.between(1, 31_000)))}"}`,
    `{${`"${field}":1,`.repeat(1_500)}"${field}":true}`,
  ]);
  const headers = [['content-type', random.pick(CONTENT_TYPES)]] as const;
  return random.pick<() => { bytes: Buffer; headers: Headers }>([
    ...new Array(3).fill(() => ({ bytes: Buffer.from(document), headers })),
    () => ({ bytes: Buffer.from(document, random.pick(['utf16le', 'latin1'])), headers }),
    () => ({ bytes: gzipSync(document), headers: [...headers, ['content-encoding', 'gzip']] }),
    () => ({ bytes: Buffer.from(document), headers: [['content-encoding', 'x']] }),
    () => ({ bytes: Buffer.alloc(random.pick([0, 1, 40_000]), ' '), headers }),
    () => ({ bytes: Buffer.alloc(random.chance(0.1) ? 1024 * 1024 : 1, document), headers }),
  ])();
}

/** Truncates or changes base64. Keeps the last characters, because decoders may ignore some of their bits. */
function corruptBase64(random: SeededRandom, text: string): string {
  const position = Math.floor(random.between(0.1, 0.9) * text.length);
  const other = text.charAt(position) === 'A' ? 'B' : 'A';
  return random.pick([
    text.slice(0, position),
    text.slice(0, position) + other + text.slice(position + 1),
    `${text.slice(0, position)}AAAA${text.slice(position)}`,
  ]);
}

function encodeBase64(text: string): string {
  return Buffer.from(text).toString('base64');
}
