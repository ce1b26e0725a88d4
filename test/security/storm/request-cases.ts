import type { Dice } from '../../../src/demo/test-mint/dice.ts';
import { type Credentials, strangeCredentials, strangePayment } from './authorizations.ts';
import { strangeBody } from './bodies.ts';
import type { Expectation } from './judge.ts';
import { strangeText } from './strange-text.ts';
import type { Stranger } from './stranger.ts';
import { ENDPOINTS, type Endpoint, speechOf, strangeTarget, type Target } from './targets.ts';

/** What strangers know of the service. */
export interface Surroundings {
  strangers: readonly Stranger[];
  /** Its mint is out of order: 500 is a right answer to whoever wants to pay them. */
  unlucky: Stranger;
  mintUrl: string;
  /** Whether 429 is an answer that may come. */
  isLimited: boolean;
}

/** One request, well framed, however strange what is in it. */
export interface RequestCase {
  bytes: Buffer;
  expected: Expectation;
  /** Its body is so large that the answer may be lost when the server hangs up. */
  isHuge: boolean;
  /**
   * Nothing may follow it on its connection: behind an `Upgrade` that was passed over, Node says of
   * what it cannot read nothing before its timeout.
   */
  isLast: boolean;
}

const WRONG_METHOD_SHARE = 0.1;
const UNLUCKY_SHARE = 0.15;
const HEADERS_SHARE = 0.4;
const UNREADABLE_SHARE = 0.01;
const BODY_ANYWAY_SHARE = 0.15;
const PAYMENT_SHARE = 0.6;

/** What Node's parser takes; 16 KiB less than what the service allows is never refused for its size. */
const SURELY_NOT_TOO_LARGE = 48 * 1024;
const HUGE_BODY = 256 * 1024;

const METHODS = [
  ...['GET', 'POST', 'PATCH', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND', 'QUERY'],
  ...['get', 'BREW', 'G\u0001T', 'PATCHPATCH'],
];

/** Rolls one request. What it holds depends on the dice alone, but for times, ports and signatures. */
export function requestCase(dice: Dice, around: Surroundings): RequestCase {
  const endpoint = dice.pick(ENDPOINTS);
  const isUnlucky = dice.happens(UNLUCKY_SHARE);
  const npubs = (isUnlucky ? [around.unlucky] : around.strangers).map((each) => each.npub);
  const target = strangeTarget(dice, endpoint, { npubs });
  const method = dice.happens(WRONG_METHOD_SHARE) ? dice.pick(METHODS) : endpoint.method;
  const stranger = dice.pick(around.strangers);
  const asked = { stranger, pathname: target.pathname, method };
  const credentials: Credentials =
    endpoint.access === 'anyone' && dice.happens(0.8)
      ? { headers: [], proves: 'never' }
      : strangeCredentials(dice, asked);
  const marker = `m4rk${Math.floor(dice.roll() * 2 ** 40).toString(36)}`;
  const mayHaveBody =
    !['GET', 'HEAD'].includes(method) && (endpoint.fields.length > 0 || dice.happens(0.5));
  const body =
    mayHaveBody || dice.happens(BODY_ANYWAY_SHARE)
      ? strangeBody(dice, endpoint.fields, around.mintUrl)
      : null;
  const headers: [string, string][] = [
    ...(dice.happens(0.97) ? [['host', dice.pick(HOSTS)] as [string, string]] : []),
    ...credentials.headers.map(([name, value]): [string, string] => [name, value]),
    ...(endpoint.fields.includes('username') && dice.happens(PAYMENT_SHARE)
      ? [['x-cashu', strangePayment(dice, around.mintUrl)] as [string, string]]
      : []),
    ...(dice.happens(HEADERS_SHARE) ? strangeHeaders(dice, marker) : []),
    ...(dice.happens(UNREADABLE_SHARE) ? [unreadableHeader(dice, marker)] : []),
    ...(body === null ? [] : body.headers.map(([name, value]): [string, string] => [name, value])),
    ...(body === null ? [] : [['content-length', String(body.bytes.length)] as [string, string]]),
  ];
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const head = Buffer.from(`${method} ${target.text} HTTP/1.1\r\n${lines}\r\n`);
  // Where not even its first words are HTTP, nobody can tell for whom it is.
  const speech = /^[A-Za-z]+$/.test(method) && isPath(target.text) ? speechOf(target.text) : null;
  return {
    bytes: body === null ? head : Buffer.concat([head, body.bytes]),
    isHuge: (body?.bytes.length ?? 0) > HUGE_BODY,
    isLast: headers.some(([name]) => name === 'upgrade'),
    expected: {
      speech,
      marker,
      isHead: method === 'HEAD',
      isPaying: headers.some(([name]) => name === 'x-cashu'),
      isUnreadable: !isReadable(method, target.text, lines),
      statuses: [
        ...statusesOf({ endpoint, target, method, credentials, isUnlucky, speech }),
        ...(head.length > SURELY_NOT_TOO_LARGE ? [431] : []),
        ...(around.isLimited ? [429] : []),
      ],
    },
  };
}

/** Every status that spec.md knows for what was asked. */
function statusesOf(asked: {
  endpoint: Endpoint;
  target: Target;
  method: string;
  credentials: Credentials;
  isUnlucky: boolean;
  speech: Expectation['speech'];
}): number[] {
  const { endpoint, target, method, credentials, isUnlucky, speech } = asked;
  if (method === 'OPTIONS') {
    // A path that cannot be read is told so; LNURL tells it with 200.
    return [204, 200, 400, 404];
  }
  const isItself = target.isPlain && method === endpoint.method;
  const isProven =
    credentials.proves === 'maybe' ||
    credentials.proves === 'event' ||
    (credentials.proves === 'token' && endpoint.access === 'user');
  if (isItself && endpoint.access !== 'anyone' && !isProven) {
    return [401];
  }
  const isSurelyProven = credentials.proves !== 'maybe' && isItself;
  const asUser = [...(isSurelyProven ? [] : [401]), ...(isProven ? [200, 201, 402] : [])];
  switch (speech) {
    case 'lnurl':
    case 'verify':
      return [200, 404, 413, ...(isUnlucky ? [500] : [])];
    case 'nip05':
      return [200, 400, 404, 413];
    case 'api':
    case null:
      return [400, 404, 413, ...(endpoint.access === 'anyone' ? [200] : asUser)];
  }
}

/** Whether HTTP's grammar allows it (RFC 9112): a parser may be lenient with what it does not. */
function isReadable(method: string, target: string, lines: string): boolean {
  return (
    METHODS.slice(0, 10).includes(method) &&
    isPath(target) &&
    /^[!-~]*$/.test(target) &&
    /^([\w-]+: [\t -~]*\r\n)*$/.test(lines)
  );
}

function isPath(target: string): boolean {
  return /^(\/|https?:\/\/[\w.:[\]]+\/)/.test(target);
}

const HOSTS = [
  ...[
    '127.0.0.1',
    'localhost',
    'evil.test',
    '[::1]:80',
    'evil.test:99999',
    'a b',
    '',
    '@',
    '../..',
  ],
  ...[
    '127.0.0.1, evil.test',
    'é.test',
    'x'.repeat(5_000),
    'evil.test/path',
    '%00',
    'http://evil.test',
  ],
];

function strangeHeaders(dice: Dice, marker: string): [string, string][] {
  const count = 1 + Math.floor(dice.roll() ** 3 * 30);
  return Array.from({ length: count }, () => strangeHeader(dice, marker));
}

function strangeHeader(dice: Dice, marker: string): [string, string] {
  return dice.pick<() => [string, string]>([
    () => [
      'x-forwarded-for',
      dice.pick([marker, '::1', '1.2.3.4, 5.6.7.8', ','.repeat(500), '127.0.0.1']),
    ],
    () => ['x-forwarded-host', dice.pick([marker, 'evil.test', 'evil.test, evil2.test', ''])],
    () => ['x-forwarded-proto', dice.pick([marker, 'https', 'javascript', ''])],
    () => ['x-forwarded-port', marker],
    () => ['forwarded', `for=${marker};host=${marker};proto=${marker}`],
    () => ['origin', dice.pick([`https://${marker}.test`, 'null', '*', ''])],
    () => ['referer', `https://${marker}.test`],
    () => ['cookie', `${marker}=${strangeText(dice, 2_000)}`],
    () => ['accept', dice.pick(['text/html', 'image/png', marker, '*/*;q=0', ''])],
    () => ['accept-encoding', dice.pick(['gzip', 'br', 'identity;q=0, *;q=0', marker])],
    () => ['accept-version', dice.pick(['1.x', marker])],
    () => ['range', dice.pick(['bytes=0-1', 'bytes=-1', marker])],
    () => ['if-none-match', dice.pick(['*', `"${marker}"`])],
    () => ['expect', dice.pick(['100-continue', marker, ''])],
    () => ['upgrade', dice.pick(['h2c', 'websocket', 'TLS/1.0', marker])],
    () => [
      'connection',
      dice.pick(['keep-alive', 'Upgrade', 'close', 'Upgrade, HTTP2-Settings', marker]),
    ],
    () => ['http2-settings', 'AAMAAABkAAQAoAAAAAIAAAAA'],
    () => ['sec-websocket-key', dice.pick([marker, 'x'])],
    () => ['sec-websocket-version', dice.pick(['13', '8', marker])],
    () => ['sec-websocket-extensions', 'permessage-deflate; client_max_window_bits=99'],
    () => ['access-control-request-method', dice.pick(['GET', 'BREW', marker])],
    () => ['access-control-request-headers', `${marker},authorization`],
    () => ['access-control-request-private-network', 'true'],
    () => ['x-http-method-override', 'DELETE'],
    () => ['x-original-url', `/${marker}`],
    () => ['te', 'trailers'],
    () => ['trailer', 'x-cashu'],
    () => ['content-location', marker],
    () => ['request-id', marker],
    () => ['x-cashu', dice.pick([marker, ''])],
    () => [`x-${marker}`, strangeText(dice, 3_000)],
    () => ['__proto__', marker],
    () => ['constructor', marker],
    () => ['x'.repeat(1_000), marker],
  ])();
}

/** No parser has to take it. */
function unreadableHeader(dice: Dice, marker: string): [string, string] {
  return dice.happens(0.5)
    ? [dice.pick(['bad name', 'x\u0000', '', 'x(y)', 'é']), marker]
    : ['x-bytes', `${marker}${dice.pick(['é\u0080', '\u0000', '\u007f', '\u0001'])}`];
}
