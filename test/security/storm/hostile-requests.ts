import { gzipSync } from 'node:zlib';
import type { Dice } from '../../../demo/test-mint/dice.ts';
import { type Dialect, dialectOf } from '../../../src/http/errors.ts';
import type { TestWallet } from '../../helpers/wallet.ts';

/** A key with a JWT, which is bound to {@link USER_AGENT}. */
export interface Stranger {
  wallet: TestWallet;
  jwt: string;
}

/** What strangers know about the service. */
export interface Surroundings {
  strangers: readonly Stranger[];
  mintUrl: string;
}

/** One request that is framed correctly, whatever it contains, and its acceptable responses. */
export interface RequestCase {
  bytes: Buffer;
  method: string;
  target: string;
  /** Null if the request does not show which endpoint it means; then any format is accepted. */
  dialect: Dialect | null;
  statuses: readonly number[];
  /** Carries a token, whose mint may have to be asked again: 500 with `Retry-After` is accepted. */
  isPaying: boolean;
  /** Bytes that an HTTP parser may reject with 400 in any format. */
  isUnreadable: boolean;
  /** The body is so large that the response may be lost when the server closes the connection. */
  isHuge: boolean;
  /** A string of the request that must not be echoed. */
  marker: string;
}

type Headers = readonly (readonly [name: string, value: string])[];

/** What an authorization proves; `nothing` must be rejected. */
type Proof = 'event' | 'token' | 'nothing';

type Access = 'anyone' | 'key' | 'user';

export const USER_AGENT = 'stranger/1.0';

const MEBIBYTE = 1024 * 1024;
const NESTING = 10_000;

/** The endpoints of spec.md section 4, with the field of their body and their parameters. */
const ENDPOINTS: readonly (readonly [string, string, Access, string?, ...string[]])[] = [
  ['GET', '/api/v2/info', 'anyone'],
  ['GET', '/api/v2/wallet/quotes', 'user', '', 'since', 'limit', 'offset'],
  ['GET', '/api/v2/user/info', 'user'],
  ['PATCH', '/api/v2/user/mint', 'user', 'mint_url'],
  ['PATCH', '/api/v2/user/lock', 'user', 'lockQuotes'],
  ['POST', '/api/v2/user/username', 'user', 'username'],
  ['GET', '/api/v2/auth/nip98', 'key'],
  ['GET', '/api/v2/ws/quote', 'anyone'],
  ['GET', '/.well-known/lnurlp/{user}', 'anyone', '', 'amount', 'comment', 'nonce'],
  ['GET', '/lnurl/verify/{token}', 'anyone'],
  ['GET', '/.well-known/nostr.json', 'anyone', '', 'name'],
];

const STANDARD_METHODS = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE'];
const METHODS = [...STANDARD_METHODS, 'get', 'BREW', 'G\u0001T'];

/** Texts that parsers stumble over: numbers, encodings, paths, code, names of JavaScript's own. */
const TEXTS = [
  ...['', ' ', '0', '-1', '1e3', '1.5', '0x3e8', '1_000', '%31000', '1000%00', 'NaN', 'null'],
  ...['9'.repeat(30), '9007199254740993', '9223372036854775808', '1e99999', 'A', 'x=y;'],
  ...['%', '%0', '%zz', '%00', '%20', '%c0%af', '%c3%28', '%ff%fe', '%F0%9F%9C%81', '%2e/'],
  ...['/', '//', '/./', '/x/../', '\\', '?', '#x', '&&=&=', '[]=1', '[x]=1', ';x=1', '*', ','],
  ...["'; --", '{}[]"', '<script>', '__proto__', 'constructor', 'hasOwnProperty', 'x@y.test'],
  ...['br, *;q=0', 'bytes=-1', 'h2c', 'close', 'text/html', 'DELETE', '🜁', '\u202e'],
];

/** JSON of any type, and what only looks like it. */
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

/** Headers that may change how a server reads a request, or what it returns. */
const HEADER_NAMES = [
  ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'forwarded', 'x-original-url'],
  ...['origin', 'cookie', 'accept', 'accept-encoding', 'accept-version', 'range', 'expect', 'te'],
  ...['upgrade', 'sec-websocket-key', 'access-control-request-method', 'x-http-method-override'],
  ...['access-control-request-headers', 'request-id', 'x-cashu', '__proto__', 'x'.repeat(1_000)],
];

/** Node's parser accepts more; the service never rejects a smaller head for its size. */
const SURELY_NOT_TOO_LARGE = 48 * 1024;
const HUGE_BODY = 256 * 1024;

/** Makes one request. Apart from times, ports and signatures, it depends on the dice alone. */
export function requestCase(dice: Dice, { strangers, mintUrl }: Surroundings): RequestCase {
  const [usualMethod, template, access, field = '', ...parameters] = dice.pick(ENDPOINTS);
  const path = template
    .replace('{user}', () => perhapsHostile(dice, dice.pick(strangers).wallet.npub))
    .replace('{token}', () => perhapsHostile(dice, 'abc4'.repeat(16)));
  const mangled = dice.happens(0.3) ? mangledPath(dice, path) : path;
  const query = dice.happens(0.5) ? hostileQuery(dice, dice.pick([...parameters, 'amount'])) : '';
  // Some characters end the target or the line; keep most requests readable.
  const raw = mangled + query;
  const target = dice.happens(0.1) ? raw : raw.replace(/[^!-~]/g, percentEncoded);
  const method = dice.happens(0.1) ? dice.pick(METHODS) : usualMethod;
  const [authorization, proves] =
    access === 'anyone' && dice.happens(0.8)
      ? ([null, 'nothing'] as const)
      : hostileAuthorization(dice, dice.pick(strangers), target.replace(/\?.*$/, ''), method);
  const marker = newMarker(dice);
  const hasBody = (!['GET', 'HEAD'].includes(method) && field !== '') || dice.happens(0.15);
  const body = hasBody ? hostileBody(dice, field || 'field', mintUrl) : null;
  const headers: Headers = [
    ['host', 'x'],
    ['connection', 'close'],
    ['user-agent', USER_AGENT],
    ...(authorization === null ? [] : [['authorization', authorization] as const]),
    ...(field === 'username' && dice.happens(0.6)
      ? [['x-cashu', hostilePayment(dice, mintUrl)] as const]
      : []),
    ...(dice.happens(0.4) ? hostileHeaders(dice, marker) : []),
    ...(body === null
      ? []
      : [...body.headers, ['content-length', `${body.bytes.length}`] as const]),
  ];
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const head = Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines}\r\n`);
  const isPath = /^(\/|https?:\/\/[\w.:[\]]+\/)/.test(target);
  const routed = target.replace(/^https?:\/\/[^/?#]*/i, '');
  const dialect = /^[A-Za-z]+$/.test(method) && isPath ? dialectOf(routed) : null;
  const isItself = mangled === path && method === usualMethod;
  const statuses = statusesOf({ method, access, isItself, proves, dialect });
  return {
    bytes: body === null ? head : Buffer.concat([head, body.bytes]),
    method,
    target: routed,
    dialect,
    marker,
    isHuge: (body?.bytes.length ?? 0) > HUGE_BODY,
    isPaying: headers.some(([name]) => name === 'x-cashu'),
    // What HTTP's grammar does not allow (RFC 9112).
    isUnreadable: !(
      STANDARD_METHODS.includes(method) &&
      isPath &&
      /^[!-~]*$/.test(target) &&
      /^([\w-]+: [\t -~]*\r\n)*$/.test(lines)
    ),
    statuses: head.length > SURELY_NOT_TOO_LARGE ? [...statuses, 431] : statuses,
  };
}

/** A text that occurs nowhere else. */
export function newMarker(dice: Dice): string {
  return `m4rk${Math.floor(dice.roll() * 2 ** 40).toString(36)}`;
}

/** A text with one thing wrong with it, or something else in its place. */
export function hostile(dice: Dice, right: string, maxLength = 3_000): string {
  const place = Math.floor(dice.roll() * right.length);
  const [before, after] = [right.slice(0, place), right.slice(place)];
  const text = dice.pick(TEXTS);
  const length = 1 + Math.floor(dice.roll() ** 3 * maxLength);
  return dice.pick([
    text,
    (text || 'x').repeat(Math.ceil(length / (text.length || 1))).slice(0, length),
    before,
    after,
    before + after.slice(1),
    before + text + after,
    before + String.fromCharCode((right.charCodeAt(place) ^ 1) & 0x7f) + after.slice(1),
    right + right,
    right.toUpperCase(),
  ]);
}

/** Half of the requests are signed correctly, because most mistakes lie behind authentication. */
export function hostileAuthorization(
  dice: Dice,
  { wallet, jwt }: Stranger,
  pathname: string,
  method: string,
): [authorization: string | null, proves: Proof] {
  const event = wallet.sign(pathname, method);
  return dice.pick<[string | null, Proof]>([
    ...new Array<[string, Proof]>(3).fill([event, 'event']),
    ...new Array<[string, Proof]>(3).fill([`Bearer ${jwt}`, 'token']),
    [null, 'nothing'],
    [`${dice.pick(['Nostr', 'Bearer', 'Basic', ''])} ${hostile(dice, 'x', 4_000)}`, 'nothing'],
    [`Nostr ${base64('['.repeat(NESTING))}`, 'nothing'],
    [`Nostr ${base64(dice.pick(VALUES))}`, 'nothing'],
    [`Nostr ${damagedBase64(dice, event.slice('Nostr '.length))}`, 'nothing'],
    [`Bearer ${damagedBase64(dice, jwt)}`, 'nothing'],
  ]);
}

/** Returns every status that spec.md defines for the request. */
function statusesOf(asked: {
  method: string;
  access: Access;
  /** The endpoint's own method and path, unchanged. */
  isItself: boolean;
  proves: Proof;
  dialect: Dialect | null;
}): number[] {
  const { method, access, isItself, proves, dialect } = asked;
  if (method === 'OPTIONS') {
    return [204, 200, 400, 404];
  }
  const isProven = proves === 'event' || (proves === 'token' && access === 'user');
  if (isItself && access !== 'anyone' && !isProven) {
    return [401];
  }
  switch (dialect) {
    case 'lnurl':
    case 'verify':
      return [200, 404, 413];
    case 'nip05':
      return [200, 400, 404, 413];
    default: {
      const asUser = [...(isItself ? [] : [401]), ...(isProven ? [200, 201, 402] : [])];
      return [400, 404, 413, ...(access === 'anyone' ? [200] : asUser)];
    }
  }
}

function percentEncoded(character: string): string {
  return Buffer.from(character).toString('hex').replace(/../g, '%$&');
}

function perhapsHostile(dice: Dice, right: string): string {
  return dice.happens(0.5) ? right : hostile(dice, right, 20_000);
}

function mangledPath(dice: Dice, path: string): string {
  const place = 1 + Math.floor(dice.roll() * (path.length - 1));
  return dice.pick([
    hostile(dice, path, 5_000).replace(/^\/?/, '/'),
    `/${path}`,
    path.replaceAll('/', dice.pick(['//', '/./', '/x/../', '%2f', '\\', '/%2e/'])),
    path + dice.pick(TEXTS),
    path.slice(0, place) + percentEncoded(path.charAt(place)) + path.slice(place + 1),
    `http://${dice.pick(['elsewhere.test', 'x', '127.0.0.1:1', '[::1]'])}${path}`,
    `${path}/${'x'.repeat(dice.pick([100, 5_000, 70_000]))}`,
    dice.pick(['/', '*', '', 'x', '//', '/api', '/..//..', '/__proto__', '?']),
  ]);
}

function hostileQuery(dice: Dice, name: string): string {
  const value = dice.pick(['21000', '21000', hostile(dice, '21000', 5_000)]);
  return dice.pick([
    `?${name}=${value}`,
    `?${name}=${value}&${name}=${dice.pick(TEXTS)}`,
    `?${name}=${value}&${hostile(dice, 'offset=1')}`,
    `?${name}[]=${value}`,
    `?__proto__=${value}&__proto__[${name}]=1&constructor=1&hasOwnProperty=1`,
    `?${name}`,
    `??${hostile(dice, `${name}=${value}&`)}`,
    `?${`${name}=${value.slice(0, 20)}&`.repeat(2_000)}`,
    `?nostr=${encodeURIComponent(JSON.stringify({ kind: 9734, tags: [[dice.pick(VALUES)]] }))}`,
  ]);
}

function hostileHeaders(dice: Dice, marker: string): Headers {
  const count = 1 + Math.floor(dice.roll() ** 3 * 30);
  return Array.from({ length: count }, (): [string, string] => [
    dice.pick([...HEADER_NAMES, `x-${marker}`]),
    dice.pick([marker, `https://${marker}.test`, hostile(dice, marker).replace(/[^\t -~]/g, 'x')]),
  ]);
}

/** A payment for a name (NUT-24) that is worth nothing. unit/ecash-token.test.ts has more of them. */
function hostilePayment(dice: Dice, mintUrl: string): string {
  const proof = { id: '009a1f293253e41e', amount: 32, secret: 'x', C: `02${'ab'.repeat(32)}` };
  const token = `cashuA${base64(JSON.stringify({ token: [{ mint: mintUrl, proofs: [proof] }] }))}`;
  return dice.pick([token, hostile(dice, token).replace(/[^\t -~]/g, 'x'), 'c'.repeat(60_000)]);
}

/** A body for an endpoint that expects this field. */
function hostileBody(
  dice: Dice,
  field: string,
  mintUrl: string,
): { bytes: Buffer; headers: Headers } {
  // Mint URLs lead nowhere outside of this machine.
  const right = JSON.stringify(
    { mint_url: dice.pick([mintUrl, 'http://127.0.0.1:1']), lockQuotes: true }[field] ?? 'alice',
  );
  const value = dice.pick(VALUES);
  const document = dice.pick([
    ...new Array<string>(4).fill(`{"${field}":${right}}`),
    `{"${field}":${value}}`,
    `{"${field}":${right},"${field}":${value}}`,
    `{"__proto__":{"${field}":${right}},"toString":1,"then":1,"":${value}}`,
    value,
    `${'['.repeat(NESTING)}${']'.repeat(NESTING)}`,
    hostile(dice, `{"${field}":"alice"}`, 31_000),
    `{"${field}":"${'x'.repeat(Math.floor(dice.between(1, 31_000)))}"}`,
    `{${`"${field}":1,`.repeat(1_500)}"${field}":true}`,
  ]);
  const headers = [['content-type', dice.pick(CONTENT_TYPES)]] as const;
  return dice.pick<() => { bytes: Buffer; headers: Headers }>([
    ...new Array(3).fill(() => ({ bytes: Buffer.from(document), headers })),
    () => ({ bytes: Buffer.from(document, dice.pick(['utf16le', 'latin1'])), headers }),
    () => ({ bytes: gzipSync(document), headers: [...headers, ['content-encoding', 'gzip']] }),
    () => ({ bytes: Buffer.from(document), headers: [['content-encoding', 'x']] }),
    () => ({ bytes: Buffer.alloc(dice.pick([0, 1, 40_000]), ' '), headers }),
    () => ({ bytes: Buffer.alloc(dice.happens(0.1) ? MEBIBYTE : 1, document), headers }),
  ])();
}

/** Truncated or changed, but not in the last bits, which base64 may ignore. */
function damagedBase64(dice: Dice, text: string): string {
  const place = Math.floor(dice.between(0.1, 0.9) * text.length);
  const other = text.charAt(place) === 'A' ? 'B' : 'A';
  return dice.pick([
    text.slice(0, place),
    text.slice(0, place) + other + text.slice(place + 1),
    `${text.slice(0, place)}AAAA${text.slice(place)}`,
  ]);
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
