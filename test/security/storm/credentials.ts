import { createHmac } from 'node:crypto';
import { getEncodedToken } from '@cashu/cashu-ts';
import type { Dice } from '../../../demo/test-mint/dice.ts';
import type { TestWallet } from '../../helpers/wallet.ts';
import { damaged, type Headers, strangeText, strangeValue } from './strange.ts';

/** A key with a JWT, which is bound to {@link USER_AGENT}. */
export interface Stranger {
  wallet: TestWallet;
  jwt: string;
}

/** What a request says about its sender. */
export interface Credentials {
  headers: Headers;
  /** What they prove: `never` must be rejected, `maybe` may be accepted or not. */
  proves: 'event' | 'token' | 'maybe' | 'never';
}

export const USER_AGENT = 'stranger/1.0';

/** Half of the requests are signed correctly, because most mistakes lie behind authentication. */
const RIGHT_SHARE = 0.5;

/** Valid, invalid or missing credentials. */
export function strangeCredentials(
  dice: Dice,
  { wallet, jwt }: Stranger,
  pathname: string,
  method: string,
): Credentials {
  const nostr = wallet.sign(pathname, method);
  const bearer = headers(`Bearer ${jwt}`);
  if (dice.happens(RIGHT_SHARE)) {
    return dice.happens(0.5)
      ? { headers: bearer, proves: 'token' }
      : { headers: headers(nostr), proves: 'event' };
  }
  const never = (authorization: string): Credentials => ({
    headers: headers(authorization),
    proves: 'never',
  });
  return dice.pick<() => Credentials>([
    () => ({ headers: [], proves: 'never' }),
    () => never(dice.pick(['', ' ', 'Nostr', 'Bearer', 'Nostr ', 'Basic YWxhZGRpbjpvcGVu'])),
    () => never(`${dice.pick(['Nostr', 'Bearer', 'nostr', ''])} ${strangeText(dice, 4_000)}`),
    () => never(`Nostr ${damagedBase64(dice, nostr.slice('Nostr '.length))}`),
    () => never(`Nostr ${base64(JSON.stringify(strangeValue(dice)))}`),
    () => never(`Nostr ${base64(mutatedEvent(dice, wallet.signedEvent(pathname, method)))}`),
    () => never(`Nostr ${base64('['.repeat(dice.pick([10, 1_000, 10_000])))}`),
    () => never(signedForAnother(dice, wallet, pathname, method)),
    () => ({ headers: headers(signedOddly(dice, wallet, pathname, method)), proves: 'maybe' }),
    () => never(`Bearer ${damagedBase64(dice, jwt)}`),
    () => never(`Bearer ${forgedJwt(dice, jwt)}`),
    () => ({ headers: [['authorization', `Bearer ${jwt}`]], proves: 'never' }),
    () => ({
      headers: [...headers(`Bearer ${damagedBase64(dice, jwt)}`), ...bearer],
      proves: 'maybe',
    }),
  ])();
}

/** A payment for a name (NUT-24) that is worth nothing: no mint has issued these proofs. */
export function strangePayment(dice: Dice, mintUrl: string): string {
  const token = getEncodedToken({
    mint: dice.pick([mintUrl, 'https://elsewhere.invalid', 'http://127.0.0.1:1', 'x']),
    unit: dice.pick(['sat', 'msat', '']),
    proofs: Array.from({ length: dice.pick([1, 2, 30]) }, (_unused, index) => ({
      id: '009a1f293253e41e',
      amount: 2 ** index,
      secret: dice.pick(['x'.repeat(64), '["P2PK",{}]', `${index}`]),
      C: `02${'ab'.repeat(32)}`,
    })) as never,
  });
  // CBOR that promises more than it has: arrays, maps and texts of 2^32 items, tags without end.
  const cbor = dice.pick(['9affffffff', 'baffffffff', '7affffffff', '9f9f9f', 'c1'.repeat(400)]);
  return dice.pick([
    token,
    damagedBase64(dice, token),
    `cashuA${base64(JSON.stringify({ token: strangeValue(dice) }))}`,
    `cashuA${base64('{"token":[{"mint":"x","proofs":[{"amount":-1e308}]}]}')}`,
    `cashuB${Buffer.from(cbor, 'hex').toString('base64url')}`,
    `cashuC${strangeText(dice, 100)}`,
    'c'.repeat(dice.pick([1, 1_000, 60_000])),
    strangeText(dice, 2_000),
  ]);
}

function headers(authorization: string): [string, string][] {
  return [
    ['authorization', authorization],
    ['user-agent', USER_AGENT],
  ];
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

/** Changes one field and keeps the signature. */
function mutatedEvent(dice: Dice, event: object): string {
  const field = dice.pick(['id', 'pubkey', 'sig', 'kind', 'created_at', 'content', 'tags']);
  const value = dice.pick(['0'.repeat(64), 'f'.repeat(128), -1, 1e300, 27_235.5, [['u']], [[]]]);
  return JSON.stringify({ ...event, [field]: dice.happens(0.5) ? null : value });
}

/** A valid signature for another request. */
function signedForAnother(dice: Dice, wallet: TestWallet, path: string, method: string): string {
  const now = Math.floor(Date.now() / 1000);
  return wallet.sign(
    path,
    method,
    dice.pick([
      { kind: dice.pick([1, 0, 22_242, 65_535]) },
      { createdAt: dice.pick([0, now - 120, now + 120, 2 ** 32 - 1]) },
      { url: dice.pick(['https://elsewhere.test/', `http://user@127.0.0.1${path}`]) },
      { url: strangeText(dice, 500) },
      { method: 'BREW' },
    ]),
  );
}

/** A valid signature for this request, in an unusual event. */
function signedOddly(dice: Dice, wallet: TestWallet, path: string, method: string): string {
  return wallet.sign(
    path,
    method,
    dice.pick([
      { createdAt: Math.floor(Date.now() / 1000) - 30 },
      { tags: [['u', 'https://elsewhere.test/'], []] },
      { tags: [['payload', '0'.repeat(64)]] },
      { tags: new Array<string[]>(500).fill(['x', 'y']) },
    ]),
  );
}

function forgedJwt(dice: Dice, jwt: string): string {
  const [header = '', payload = '', signature = ''] = jwt.split('.');
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
  const none = encodedJson({ alg: 'none', typ: 'JWT' });
  return dice.pick([
    `${none}.${payload}.`,
    `${none}.${payload}.${signature}`,
    signedJwt({ alg: dice.pick(['HS256', 'HS512', 'RS256', 'None']) }, claims, 'secret'),
    signedJwt({ alg: 'HS256', kid: '../../dev/null', jku: 'http://127.0.0.1:1' }, claims, ''),
    signedJwt({ alg: 'HS256', jwk: { kty: 'oct', k: 'eA' } }, claims, 'x'),
    `${header}.${encodedJson({ ...claims, sub: '0'.repeat(64) })}.${signature}`,
    `${header}.${encodedJson({ ...claims, exp: 1e300, iat: strangeValue(dice) })}.${signature}`,
    `${header}.${payload}`,
    `${header}..${signature}`,
    damaged(dice, '..'),
    `${jwt}.`.repeat(20),
  ]);
}

function signedJwt(header: object, claims: object, secret: string): string {
  const signed = `${encodedJson(header)}.${encodedJson(claims)}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}

function encodedJson(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
