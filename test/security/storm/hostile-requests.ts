import { gzipSync } from 'node:zlib';
import type { Dice } from '../../../demo/test-mint/dice.ts';
import type { TestWallet } from '../../helpers/wallet.ts';
import type { Expectation, Speech } from './judge.ts';

/** A key with a JWT, which is bound to {@link USER_AGENT}. */
export interface Stranger {
  wallet: TestWallet;
  jwt: string;
}

/** What strangers know about the service. */
export interface Surroundings {
  strangers: readonly Stranger[];
  /** The mint of this one is down: 500 is a correct response to its payers. */
  unlucky: Stranger;
  mintUrl: string;
}

/** One request that is framed correctly, whatever it contains. */
export interface RequestCase {
  bytes: Buffer;
  expected: Expectation;
  /** The body is so large that the response may be lost when the server closes the connection. */
  isHuge: boolean;
  /** Nothing may follow on its connection: Node reports nothing behind an ignored `Upgrade`. */
  isLast: boolean;
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

const HOSTS = ['127.0.0.1', 'evil.test', '[::1]:80', 'evil.test:99999', 'a b', '', '@', 'é.test'];

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
  ...['application/json; charset=utf-8', 'application/json; charset=utf-16'],
  ...['application/x-www-form-urlencoded', 'text/plain', '*/*', ';', ''],
];

/** Headers that may change how a server reads a request, or what it returns. */
const HEADER_NAMES = [
  ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'forwarded', 'x-original-url'],
  ...['origin', 'cookie', 'accept', 'accept-encoding', 'accept-version', 'range', 'expect', 'te'],
  ...['upgrade', 'connection', 'sec-websocket-key', 'access-control-request-method'],
  ...['access-control-request-headers', 'x-http-method-override', 'request-id', 'x-cashu'],
  ...['__proto__', 'x'.repeat(1_000)],
];

/** CBOR that promises more than it has: arrays, maps and texts of 2^32 items, tags without end. */
const CBOR = ['9affffffff', 'baffffffff', '7affffffff', '9f9f9f', 'c1'.repeat(400)];

/** Node's parser accepts more; the service never rejects a smaller head for its size. */
const SURELY_NOT_TOO_LARGE = 48 * 1024;
const HUGE_BODY = 256 * 1024;

/** Makes one request. Apart from times, ports and signatures, it depends on the dice alone. */
export function requestCase(dice: Dice, around: Surroundings): RequestCase {
  const [usualMethod, template, access, field = '', ...parameters] = dice.pick(ENDPOINTS);
  const isUnlucky = dice.happens(0.15);
  const recipient = isUnlucky ? around.unlucky : dice.pick(around.strangers);
  const path = template
    .replace('{user}', () => perhapsHostile(dice, recipient.wallet.npub))
    .replace('{token}', () => perhapsHostile(dice, 'abc4'.repeat(16)));
  const mangled = dice.happens(0.3) ? mangledPath(dice, path) : path;
  const query = dice.happens(0.5) ? hostileQuery(dice, dice.pick([...parameters, 'amount'])) : '';
  // Some characters end the target or the line; keep most requests readable.
  const raw = mangled + query;
  const target = dice.happens(0.1) ? raw : raw.replace(/[^!-~]/g, percentEncoded);
  const method = dice.happens(0.1) ? dice.pick(METHODS) : usualMethod;
  const sender = dice.pick(around.strangers);
  const [authorization, proves] =
    access === 'anyone' && dice.happens(0.8)
      ? ([[], 'nothing'] as const)
      : hostileAuthorization(dice, sender, target.replace(/\?.*$/, ''), method);
  const marker = newMarker(dice);
  const hasBody = (!['GET', 'HEAD'].includes(method) && field !== '') || dice.happens(0.15);
  const body = hasBody ? hostileBody(dice, field || 'field', around.mintUrl) : null;
  const isPaying = field === 'username' && dice.happens(0.6);
  const headers: Headers = [
    ...(dice.happens(0.97) ? [['host', dice.pick(HOSTS)] as const] : []),
    ...authorization,
    ...(isPaying ? [['x-cashu', hostilePayment(dice, around.mintUrl)] as const] : []),
    ...(dice.happens(0.4) ? hostileHeaders(dice, marker) : []),
    ...(body === null
      ? []
      : [...body.headers, ['content-length', `${body.bytes.length}`] as const]),
  ];
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const head = Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines}\r\n`);
  const speech = /^[A-Za-z]+$/.test(method) && isPath(target) ? speechOf(target) : null;
  const isItself = mangled === path && method === usualMethod;
  const statuses =
    method === 'OPTIONS'
      ? [204, 200, 400, 404]
      : statusesOf({ access, isItself, proves, isUnlucky, speech });
  return {
    bytes: body === null ? head : Buffer.concat([head, body.bytes]),
    isHuge: (body?.bytes.length ?? 0) > HUGE_BODY,
    isLast: headers.some(([name]) => name === 'upgrade'),
    expected: {
      speech,
      marker,
      isHead: method === 'HEAD',
      isPaying: headers.some(([name]) => name === 'x-cashu'),
      isUnreadable: !isReadable(method, target, lines),
      statuses: head.length > SURELY_NOT_TOO_LARGE ? [...statuses, 431] : statuses,
    },
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
): [headers: Headers, proves: Proof] {
  const event = wallet.sign(pathname, method);
  const [authorization, proves] = dice.pick<[string | null, Proof]>([
    ...new Array<[string, Proof]>(3).fill([event, 'event']),
    ...new Array<[string, Proof]>(3).fill([`Bearer ${jwt}`, 'token']),
    [null, 'nothing'],
    [`${dice.pick(['Nostr', 'Bearer', 'Basic', ''])} ${hostile(dice, 'x', 4_000)}`, 'nothing'],
    [`Nostr ${base64('['.repeat(NESTING))}`, 'nothing'],
    [`Nostr ${base64(dice.pick(VALUES))}`, 'nothing'],
    [`Nostr ${damagedBase64(dice, event.slice('Nostr '.length))}`, 'nothing'],
    [`Bearer ${damagedBase64(dice, jwt)}`, 'nothing'],
  ]);
  return authorization === null
    ? [[], proves]
    : [
        [
          ['authorization', authorization],
          ['user-agent', USER_AGENT],
        ],
        proves,
      ];
}

/** Returns every status that spec.md defines for the request. */
function statusesOf(asked: {
  access: Access;
  /** The endpoint's own method and path, unchanged. */
  isItself: boolean;
  proves: Proof;
  isUnlucky: boolean;
  speech: Speech | null;
}): number[] {
  const { access, isItself, proves, isUnlucky, speech } = asked;
  const isProven = proves === 'event' || (proves === 'token' && access === 'user');
  if (isItself && access !== 'anyone' && !isProven) {
    return [401];
  }
  switch (speech) {
    case 'lnurl':
    case 'verify':
      return [200, 404, 413, ...(isUnlucky ? [500] : [])];
    case 'nip05':
      return [200, 400, 404, 413];
    case 'api':
    case null: {
      const asUser = [...(isItself ? [] : [401]), ...(isProven ? [200, 201, 402] : [])];
      return [400, 404, 413, ...(access === 'anyone' ? [200] : asUser)];
    }
  }
}

/**
 * Returns the format of the longest endpoint that the path begins with. Repeated slashes and
 * percent-encoded letters mean the same as plain ones (RFC 3986 section 6.2.2).
 */
function speechOf(target: string): Speech {
  const path = target
    .replace(/^https?:\/\/[^/?#]*/i, '')
    .replace(/[?#].*$/, '')
    .replace(/%[2-7][0-9a-f]/gi, decodeUnreserved)
    .replace(/\/{2,}/g, '/');
  if (path.startsWith('/.well-known/nostr.json')) {
    return 'nip05';
  }
  if (path.startsWith('/lnurl/verify')) {
    return 'verify';
  }
  return path.startsWith('/.well-known/lnurlp') ? 'lnurl' : 'api';
}

function decodeUnreserved(triplet: string): string {
  const character = String.fromCharCode(Number.parseInt(triplet.slice(1), 16));
  return /[\w.~-]/.test(character) ? character : triplet;
}

function percentEncoded(character: string): string {
  return Buffer.from(character).toString('hex').replace(/../g, '%$&');
}

/** Whether HTTP's grammar allows the request (RFC 9112). */
function isReadable(method: string, target: string, lines: string): boolean {
  return (
    STANDARD_METHODS.includes(method) &&
    isPath(target) &&
    /^[!-~]*$/.test(target) &&
    /^([\w-]+: [\t -~]*\r\n)*$/.test(lines)
  );
}

function isPath(target: string): boolean {
  return /^(\/|https?:\/\/[\w.:[\]]+\/)/.test(target);
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

/** Few of them are none that HTTP allows. */
function hostileHeaders(dice: Dice, marker: string): Headers {
  const count = 1 + Math.floor(dice.roll() ** 3 * 30);
  const headers = Array.from({ length: count }, (): [string, string] => [
    dice.pick([...HEADER_NAMES, `x-${marker}`]),
    dice.pick([marker, `https://${marker}.test`, hostile(dice, marker).replace(/[^\t -~]/g, 'x')]),
  ]);
  if (dice.happens(0.03)) {
    headers.push([dice.pick(['bad name', 'x\u0000', '', 'x(y)', 'é']), marker]);
  }
  if (dice.happens(0.03)) {
    headers.push(['x-bytes', `${marker}${dice.pick(['é\u0080', '\u0000', '\u007f', '\u0001'])}`]);
  }
  return headers;
}

/** A payment for a name (NUT-24) that is worth nothing: no mint has issued its proof. */
function hostilePayment(dice: Dice, mintUrl: string): string {
  const proof = { id: '009a1f293253e41e', amount: 32, secret: 'x', C: `02${'ab'.repeat(32)}` };
  const mint = dice.pick([mintUrl, 'https://elsewhere.invalid', 'http://127.0.0.1:1', 'x']);
  const token = `cashuA${base64(JSON.stringify({ token: [{ mint, proofs: [proof] }] }))}`;
  return dice.pick([
    token,
    hostile(dice, token).replace(/[^\t -~]/g, 'x'),
    `cashuA${base64(`{"token":[{"mint":"x","proofs":[{"amount":${dice.pick(VALUES)}}]}]}`)}`,
    `cashuB${Buffer.from(dice.pick(CBOR), 'hex').toString('base64url')}`,
    'c'.repeat(dice.pick([1, 1_000, 60_000])),
  ]);
}

/** A body for an endpoint that expects this field. */
function hostileBody(
  dice: Dice,
  field: string,
  mintUrl: string,
): { bytes: Buffer; headers: Headers } {
  const right = JSON.stringify(rightValue(dice, field, mintUrl));
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
  const type = dice.happens(0.9) ? [['content-type', dice.pick(CONTENT_TYPES)] as const] : [];
  const encoding = (name: string) => [...type, ['content-encoding', name] as const];
  return dice.pick<() => { bytes: Buffer; headers: Headers }>([
    ...new Array(3).fill(() => ({ bytes: Buffer.from(document), headers: type })),
    () => ({ bytes: Buffer.from(`\ufeff${document}`), headers: type }),
    () => ({ bytes: Buffer.from(document, 'utf16le'), headers: type }),
    () => ({ bytes: gzipSync(document), headers: encoding('gzip') }),
    () => ({ bytes: Buffer.from(document), headers: encoding(dice.pick(['gzip', 'x', ''])) }),
    () => ({ bytes: Buffer.from(`${document}\u00ff\u00fe\0`, 'latin1'), headers: type }),
    () => ({ bytes: Buffer.alloc(dice.pick([0, 1, 40_000]), ' '), headers: type }),
    () => ({ bytes: Buffer.alloc(dice.happens(0.1) ? MEBIBYTE : 1, document), headers: type }),
  ])();
}

/** Mint URLs lead nowhere outside of this machine. */
function rightValue(dice: Dice, field: string, mintUrl: string): unknown {
  switch (field) {
    case 'mint_url':
      return dice.pick([
        ...[mintUrl, `${mintUrl}/../..`, `${mintUrl}?x`, 'http://127.0.0.1:1', 'http://[::1]:1'],
        ...['http://a:b@127.0.0.1:1', 'http://127.0.0.1:99999', 'file:///etc/passwd'],
        ...['javascript:1', 'http://'],
      ]);
    case 'lockQuotes':
      return dice.happens(0.5);
    default:
      return dice.pick(['alice', 'npub1alice', 'al', 'a'.repeat(65), 'ALICE', 'al ice', 'аlice']);
  }
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
