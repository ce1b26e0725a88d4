import type { Dice } from '../../../src/demo/test-mint/dice.ts';
import type { Speech } from './judge.ts';
import { damaged, strangeText } from './strange-text.ts';

/** An endpoint of spec.md section 4. */
export interface Endpoint {
  method: string;
  /** A path of it. */
  path: (dice: Dice, people: People) => string;
  speech: Speech;
  /** Who may ask. */
  access: 'anyone' | 'key' | 'user';
  /** Fields of its body; none where it has no body. */
  fields: readonly string[];
  /** What its query may have. */
  parameters: readonly string[];
}

/** Whose addresses strangers ask for. */
export interface People {
  npubs: readonly string[];
}

/** A path with its query, and whether it is one that leads to the endpoint. */
export interface Target {
  text: string;
  /** The path as it is signed: without its query. */
  pathname: string;
  /** Whether its path is, as it stands, the endpoint's own. */
  isPlain: boolean;
}

const apiEndpoint = (
  method: string,
  path: string,
  access: Endpoint['access'],
  fields: readonly string[] = [],
  parameters: readonly string[] = [],
): Endpoint => ({ method, path: () => path, speech: 'api', access, fields, parameters });

export const ENDPOINTS: readonly Endpoint[] = [
  apiEndpoint('GET', '/api/v2/info', 'anyone'),
  apiEndpoint('GET', '/api/v2/wallet/quotes', 'user', [], ['since', 'limit', 'offset']),
  apiEndpoint('GET', '/api/v2/user/info', 'user'),
  apiEndpoint('PATCH', '/api/v2/user/mint', 'user', ['mint_url']),
  apiEndpoint('PATCH', '/api/v2/user/lock', 'user', ['lockQuotes']),
  apiEndpoint('POST', '/api/v2/user/username', 'user', ['username']),
  apiEndpoint('GET', '/api/v2/auth/nip98', 'key'),
  apiEndpoint('GET', '/api/v2/ws/quote', 'anyone'),
  {
    method: 'GET',
    path: (dice, { npubs }) => `/.well-known/lnurlp/${strangeUser(dice, npubs)}`,
    speech: 'lnurl',
    access: 'anyone',
    fields: [],
    parameters: ['amount'],
  },
  {
    method: 'GET',
    path: (dice) => `/lnurl/verify/${strangeToken(dice)}`,
    speech: 'verify',
    access: 'anyone',
    fields: [],
    parameters: [],
  },
  {
    method: 'GET',
    path: () => '/.well-known/nostr.json',
    speech: 'nip05',
    access: 'anyone',
    fields: [],
    parameters: ['name'],
  },
];

const MANGLED_PATH_SHARE = 0.3;
const QUERY_SHARE = 0.5;
const SPACED_SHARE = 0.1;
const OWN_PARAMETER_SHARE = 0.8;
const RIGHT_VALUE_SHARE = 0.3;

/** Longer than all headers together may be. */
const TOO_LONG = 70_000;

/** A target at an endpoint, mostly with something wrong. */
export function strangeTarget(dice: Dice, endpoint: Endpoint, people: People): Target {
  const path = endpoint.path(dice, people);
  const mangled = dice.happens(MANGLED_PATH_SHARE) ? mangledPath(dice, path) : path;
  const query = dice.happens(QUERY_SHARE) ? strangeQuery(dice, endpoint.parameters) : '';
  // With a space in it, it is no target, and most of them should be read.
  const spaced = mangled + query;
  const text = dice.happens(SPACED_SHARE) ? spaced : spaced.replaceAll(' ', '%20');
  return { text, pathname: text.replace(/\?.*$/, ''), isPlain: mangled === path };
}

/**
 * How whoever answers a path speaks: that of the longest endpoint that it begins with. Doubled
 * slashes and percent-encoded letters mean the same as plain ones (RFC 3986 section 6.2.2).
 */
export function speechOf(target: string): Speech {
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

function mangledPath(dice: Dice, path: string): string {
  const place = 1 + Math.floor(dice.roll() * (path.length - 1));
  return dice.pick<() => string>([
    () => damaged(dice, path).replace(/^\/?/, '/'),
    () => `/${path}`,
    () => path.replaceAll('/', dice.pick(['//', '///', '/./', '/x/../', '%2f', '\\', '/%2e/'])),
    () =>
      `${path}${dice.pick(['/', '//', '/.', '/..', '/../..', ';x=1', '%00', '%20', '#x', '%'])}`,
    () => `${path}/${strangeText(dice, 500)}`,
    () => path.slice(0, place) + percentEncoded(path.charAt(place)) + path.slice(place + 1),
    () => path.slice(0, place) + dice.pick(['%zz', '%', '%0', '%c0%af', '%ff']) + path.slice(place),
    () => path.toUpperCase(),
    () => `http://${dice.pick(['elsewhere.test', 'x', '127.0.0.1:1', '[::1]'])}${path}`,
    () => path + 'é'.repeat(1 + Math.floor(dice.roll() * 20)),
    () => `/${strangeText(dice, 5_000)}`,
    () => `${path}/${'x'.repeat(dice.pick([100, 5_000, 60_000, TOO_LONG]))}`,
    () =>
      dice.pick(['/', '*', '', 'x', '//', '/api', '/..//..', '/__proto__', '/constructor', '?']),
  ])();
}

function percentEncoded(character: string): string {
  return `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
}

function strangeUser(dice: Dice, npubs: readonly string[]): string {
  const npub = dice.pick(npubs);
  return dice.pick([
    ...new Array<string>(8).fill(npub),
    npub.toUpperCase(),
    damaged(dice, npub).replaceAll('/', ''),
    'npub1',
    `npub1${'q'.repeat(58)}`,
    `nsec1${npub.slice(5)}`,
    'alice',
    'constructor',
    '__proto__',
    '%00',
    '%F0%9F%9C%81',
    `${npub}@elsewhere.test`,
    'a'.repeat(dice.pick([65, 2_000, 20_000])),
    encodeURIComponent(strangeText(dice, 200)),
  ]);
}

function strangeToken(dice: Dice): string {
  const token = Math.floor(dice.roll() * 2 ** 40)
    .toString(16)
    .padStart(64, '0');
  return dice.pick([token, token, token.toUpperCase(), damaged(dice, token), `${token}0`, '%00']);
}

const NUMBERS = [
  ...['1000', '21000', '50000', '1001', '0', '-1', '-0', '+1000', '1e3', '1.5', '1000.0', '0x3e8'],
  ...['1_000', ' 1000', '1000%20', '%31000', '01000', '９', 'NaN', 'Infinity', '', 'null', 'true'],
  ...['1'.repeat(16), '9'.repeat(30), '9'.repeat(5_000), '9007199254740993', '1000000000000'],
  ...['2147483648', '9223372036854775808', '1000%00', '%ff', '%', '[]', '{}', "1'--", '1000;'],
];

const NAMES = ['amount', 'since', 'limit', 'offset', 'name', 'nostr', 'comment', 'nonce'];

/** More than any client sends. */
const MANY_PARAMETERS = 2_000;

function strangeQuery(dice: Dice, parameters: readonly string[]): string {
  const isItsOwn = parameters.length > 0 && dice.happens(OWN_PARAMETER_SHARE);
  const name = dice.pick(isItsOwn ? parameters : NAMES);
  const value = dice.happens(RIGHT_VALUE_SHARE) ? '21000' : dice.pick(NUMBERS);
  return dice.pick<() => string>([
    () => `?${name}=${value}`,
    () => `?${name}=${value}`,
    () => `?${name}=${value}&${dice.pick(NAMES)}=${dice.pick(NUMBERS)}`,
    () => `?${name}=${value}&${name}=${dice.pick(NUMBERS)}`,
    () => `?${name}[]=${value}`,
    () => `?${name}[x]=${value}`,
    () => `?${name}.x=${value}`,
    () => `?__proto__=${value}&__proto__[${name}]=1&constructor=1&hasOwnProperty=1&toString=x`,
    () => `?${name}`,
    () => `?${name}=${strangeText(dice, 2_000)}`,
    () => `?${strangeText(dice, 2_000)}`,
    () => `??${name}=${value}?&&&=&=${value}&`,
    () => `?${`${name}=${value.slice(0, 20)}&`.repeat(dice.pick([3, MANY_PARAMETERS]))}`,
    () => `?name=${dice.pick(['alice', '%00', '_', '.', 'é', '__proto__', 'a'.repeat(9_000)])}`,
    () => `?nostr=${encodeURIComponent(JSON.stringify({ kind: 9734, tags: [[value]] }))}`,
  ])();
}
