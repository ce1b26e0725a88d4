import type { Dice } from '../../../demo/test-mint/dice.ts';
import {
  type Credentials,
  type Stranger,
  strangeCredentials,
  strangePayment,
} from './credentials.ts';
import type { Expectation, Speech } from './judge.ts';
import { damaged, strangeBody, strangeText } from './strange.ts';

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

/** An endpoint of spec.md section 4. */
interface Endpoint {
  method: string;
  path: string;
  speech: Speech;
  access: 'anyone' | 'key' | 'user';
  /** The field of its body, or empty. */
  field: string;
  parameters: readonly string[];
}

type Row = [string, string, Speech, Endpoint['access'], string?, (readonly string[])?];

const USER = '{user}';
const TOKEN = '{token}';

const ROWS: readonly Row[] = [
  ['GET', '/api/v2/info', 'api', 'anyone'],
  ['GET', '/api/v2/wallet/quotes', 'api', 'user', '', ['since', 'limit', 'offset']],
  ['GET', '/api/v2/user/info', 'api', 'user'],
  ['PATCH', '/api/v2/user/mint', 'api', 'user', 'mint_url'],
  ['PATCH', '/api/v2/user/lock', 'api', 'user', 'lockQuotes'],
  ['POST', '/api/v2/user/username', 'api', 'user', 'username'],
  ['GET', '/api/v2/auth/nip98', 'api', 'key'],
  ['GET', '/api/v2/ws/quote', 'api', 'anyone'],
  ['GET', `/.well-known/lnurlp/${USER}`, 'lnurl', 'anyone', '', ['amount']],
  ['GET', `/lnurl/verify/${TOKEN}`, 'verify', 'anyone'],
  ['GET', '/.well-known/nostr.json', 'nip05', 'anyone', '', ['name']],
];

const ENDPOINTS: readonly Endpoint[] = ROWS.map(
  ([method, path, speech, access, field = '', parameters = []]) => ({
    method,
    path,
    speech,
    access,
    field,
    parameters,
  }),
);

const STANDARD_METHODS = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE'];
const METHODS = [...STANDARD_METHODS, 'get', 'BREW', 'G\u0001T'];

const HOSTS = ['127.0.0.1', 'evil.test', '[::1]:80', 'evil.test:99999', 'a b', '', '@', 'é.test'];

const NUMBERS = [
  ...['1000', '21000', '0', '-1', '1e3', '1.5', '0x3e8', '1_000', '1000%20', '%31000', 'NaN', ''],
  ...['9'.repeat(30), '9'.repeat(5_000), '9007199254740993', '9223372036854775808', '1000%00', '%'],
];

const NAMES = ['amount', 'since', 'limit', 'offset', 'name', 'nostr', 'comment', 'nonce'];

/** Node's parser accepts more; the service never rejects a smaller head for its size. */
const SURELY_NOT_TOO_LARGE = 48 * 1024;
const HUGE_BODY = 256 * 1024;

/** Makes one request. Apart from times, ports and signatures, it depends on the dice alone. */
export function requestCase(dice: Dice, around: Surroundings): RequestCase {
  const endpoint = dice.pick(ENDPOINTS);
  const isUnlucky = dice.happens(0.15);
  const recipient = isUnlucky ? around.unlucky : dice.pick(around.strangers);
  const path = endpoint.path
    .replace(USER, () => strangeUser(dice, recipient.wallet.npub))
    .replace(TOKEN, () => strangeToken(dice));
  const mangled = dice.happens(0.3) ? mangledPath(dice, path) : path;
  const query = dice.happens(0.5) ? strangeQuery(dice, endpoint.parameters) : '';
  // A space ends the target; keep most of them readable.
  const target = dice.happens(0.1) ? mangled + query : (mangled + query).replaceAll(' ', '%20');
  const method = dice.happens(0.1) ? dice.pick(METHODS) : endpoint.method;
  const credentials: Credentials =
    endpoint.access === 'anyone' && dice.happens(0.8)
      ? { headers: [], proves: 'never' }
      : strangeCredentials(dice, dice.pick(around.strangers), target.replace(/\?.*$/, ''), method);
  const marker = `m4rk${Math.floor(dice.roll() * 2 ** 40).toString(36)}`;
  const isBodyUsual = !['GET', 'HEAD'].includes(method) && endpoint.field !== '';
  const body =
    isBodyUsual || dice.happens(0.15)
      ? strangeBody(dice, endpoint.field || 'field', around.mintUrl)
      : null;
  const isPaying = endpoint.field === 'username' && dice.happens(0.6);
  const headers = [
    ...(dice.happens(0.97) ? [['host', dice.pick(HOSTS)] as const] : []),
    ...credentials.headers,
    ...(isPaying ? [['x-cashu', strangePayment(dice, around.mintUrl)] as const] : []),
    ...(dice.happens(0.4) ? strangeHeaders(dice, marker) : []),
    ...(dice.happens(0.01) ? [unreadableHeader(dice, marker)] : []),
    ...(body === null
      ? []
      : [...body.headers, ['content-length', `${body.bytes.length}`] as const]),
  ];
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const head = Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines}\r\n`);
  const speech = /^[A-Za-z]+$/.test(method) && isPath(target) ? speechOf(target) : null;
  const isItself = mangled === path && method === endpoint.method;
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
      statuses: [
        ...(method === 'OPTIONS'
          ? [204, 200, 400, 404]
          : statusesOf({ endpoint, isItself, credentials, isUnlucky, speech })),
        ...(head.length > SURELY_NOT_TOO_LARGE ? [431] : []),
      ],
    },
  };
}

/** Returns every status that spec.md defines for the request. */
function statusesOf(asked: {
  endpoint: Endpoint;
  /** The endpoint's own method and path, unchanged. */
  isItself: boolean;
  credentials: Credentials;
  isUnlucky: boolean;
  speech: Speech | null;
}): number[] {
  const { endpoint, isItself, isUnlucky, speech } = asked;
  const { access } = endpoint;
  const { proves } = asked.credentials;
  const isProven =
    proves === 'maybe' || proves === 'event' || (proves === 'token' && access === 'user');
  if (isItself && access !== 'anyone' && !isProven) {
    return [401];
  }
  const isSurelyProven = proves !== 'maybe' && isItself;
  switch (speech) {
    case 'lnurl':
    case 'verify':
      return [200, 404, 413, ...(isUnlucky ? [500] : [])];
    case 'nip05':
      return [200, 400, 404, 413];
    case 'api':
    case null: {
      const asUser = [...(isSurelyProven ? [] : [401]), ...(isProven ? [200, 201, 402] : [])];
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

function mangledPath(dice: Dice, path: string): string {
  const place = 1 + Math.floor(dice.roll() * (path.length - 1));
  const encoded = `%${path.charCodeAt(place).toString(16).padStart(2, '0')}`;
  const inserted = dice.pick(['%zz', '%', '%0', '%c0%af', '%ff']);
  return dice.pick([
    damaged(dice, path).replace(/^\/?/, '/'),
    `/${path}`,
    path.replaceAll('/', dice.pick(['//', '/./', '/x/../', '%2f', '\\', '/%2e/'])),
    `${path}${dice.pick(['/', '//', '/..', ';x=1', '%00', '%20', '#x', '%'])}`,
    path.slice(0, place) + encoded + path.slice(place + 1),
    path.slice(0, place) + inserted + path.slice(place),
    path.toUpperCase(),
    `http://${dice.pick(['elsewhere.test', 'x', '127.0.0.1:1', '[::1]'])}${path}`,
    `${path}ééé`,
    `/${strangeText(dice, 5_000)}`,
    `${path}/${'x'.repeat(dice.pick([100, 5_000, 70_000]))}`,
    dice.pick(['/', '*', '', 'x', '//', '/api', '/..//..', '/__proto__', '?']),
  ]);
}

function strangeUser(dice: Dice, npub: string): string {
  return dice.pick([
    ...new Array<string>(8).fill(npub),
    npub.toUpperCase(),
    damaged(dice, npub).replaceAll('/', ''),
    `npub1${'q'.repeat(58)}`,
    `nsec1${npub.slice(5)}`,
    '__proto__',
    '%00',
    '%F0%9F%9C%81',
    `${npub}@elsewhere.test`,
    'a'.repeat(dice.pick([65, 20_000])),
    encodeURIComponent(strangeText(dice, 200)),
  ]);
}

function strangeToken(dice: Dice): string {
  const token = Math.floor(dice.roll() * 2 ** 40)
    .toString(16)
    .padStart(64, '0');
  return dice.pick([token, token.toUpperCase(), damaged(dice, token), `${token}0`, '%00']);
}

function strangeQuery(dice: Dice, parameters: readonly string[]): string {
  const name = dice.pick(parameters.length > 0 && dice.happens(0.8) ? parameters : NAMES);
  const value = dice.happens(0.3) ? '21000' : dice.pick(NUMBERS);
  const other = dice.pick(NUMBERS);
  return dice.pick([
    `?${name}=${value}`,
    `?${name}=${value}&${dice.pick(NAMES)}=${other}`,
    `?${name}=${value}&${name}=${other}`,
    `?${name}[]=${value}`,
    `?${name}[x]=${value}`,
    `?__proto__=${value}&__proto__[${name}]=1&constructor=1&hasOwnProperty=1`,
    `?${name}`,
    `?${strangeText(dice, 2_000)}`,
    `??${name}=${value}?&&&=&=${value}&`,
    `?${`${name}=${value.slice(0, 20)}&`.repeat(2_000)}`,
    `?nostr=${encodeURIComponent(JSON.stringify({ kind: 9734, tags: [[value]] }))}`,
  ]);
}

function strangeHeaders(dice: Dice, marker: string): [string, string][] {
  const count = 1 + Math.floor(dice.roll() ** 3 * 30);
  return Array.from({ length: count }, () =>
    dice.pick<[string, string]>([
      ['x-forwarded-for', dice.pick([marker, '::1', '1.2.3.4, 5.6.7.8', ','.repeat(500)])],
      ['x-forwarded-host', dice.pick([marker, 'evil.test, evil2.test', ''])],
      ['x-forwarded-proto', dice.pick([marker, 'javascript', ''])],
      ['forwarded', `for=${marker};host=${marker};proto=${marker}`],
      ['origin', dice.pick([`https://${marker}.test`, 'null', '*', ''])],
      ['cookie', `${marker}=${strangeText(dice, 2_000)}`],
      ['accept', dice.pick(['text/html', marker, '*/*;q=0', ''])],
      ['accept-encoding', dice.pick(['br', 'identity;q=0, *;q=0', marker])],
      ['accept-version', dice.pick(['1.x', marker])],
      ['range', dice.pick(['bytes=0-1', 'bytes=-1', marker])],
      ['expect', dice.pick(['100-continue', marker, ''])],
      ['upgrade', dice.pick(['h2c', 'websocket', marker])],
      ['connection', dice.pick(['keep-alive', 'Upgrade', 'close', marker])],
      ['sec-websocket-key', dice.pick([marker, 'x'])],
      ['access-control-request-method', dice.pick(['GET', 'BREW', marker])],
      ['access-control-request-headers', `${marker},authorization`],
      ['x-http-method-override', 'DELETE'],
      ['x-original-url', `/${marker}`],
      ['te', 'trailers'],
      ['request-id', marker],
      ['x-cashu', dice.pick([marker, ''])],
      [`x-${marker}`, strangeText(dice, 3_000)],
      ['__proto__', marker],
      ['x'.repeat(1_000), marker],
    ]),
  );
}

/** A header that parsers may reject. */
function unreadableHeader(dice: Dice, marker: string): [string, string] {
  return dice.happens(0.5)
    ? [dice.pick(['bad name', 'x\u0000', '', 'x(y)', 'é']), marker]
    : ['x-bytes', `${marker}${dice.pick(['é\u0080', '\u0000', '\u007f', '\u0001'])}`];
}
