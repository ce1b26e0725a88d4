import { getEncodedToken } from '@cashu/cashu-ts';
import type { Dice } from '../../../src/demo/test-mint/dice.ts';
import { strangeText, strangeValue } from './strange-text.ts';
import { base64, forgedJwt, type Stranger, USER_AGENT } from './stranger.ts';

/** What a request says of who asks. */
export interface Credentials {
  headers: readonly (readonly [string, string])[];
  /** Whether it proves a key: `never` must be refused, `maybe` is odd and may be taken or not. */
  proves: 'event' | 'token' | 'maybe' | 'never';
}

/** Whom a request signs for, and what. */
interface Asked {
  stranger: Stranger;
  pathname: string;
  method: string;
}

/** Half of all requests that must be signed are signed rightly: what is wrong is behind that door. */
const RIGHT_SHARE = 0.5;

const HALF_A_MINUTE = 30;
const TWO_MINUTES = 120;

/** Signed, right, wrong, or nothing like it. */
export function strangeCredentials(dice: Dice, asked: Asked): Credentials {
  const { stranger, pathname, method } = asked;
  if (dice.happens(RIGHT_SHARE)) {
    return dice.happens(0.5)
      ? { headers: bearer(stranger.jwt), proves: 'token' }
      : { headers: nostr(stranger.event(pathname, method)), proves: 'event' };
  }
  return dice.pick<() => Credentials>([
    () => ({ headers: [], proves: 'never' }),
    () =>
      never(dice.pick(['', ' ', 'Nostr', 'Bearer', 'Nostr ', 'Basic YWxhZGRpbjpvcGVu', 'null'])),
    () =>
      never(`${dice.pick(['Nostr', 'Bearer', 'Digest', 'nostr', ''])} ${strangeText(dice, 4_000)}`),
    () => never(`Nostr ${damagedBase64(dice, base64(stranger.event(pathname, method)))}`),
    () => never(`Nostr ${base64(JSON.stringify(strangeValue(dice)))}`),
    () => never(`Nostr ${base64(mutatedEvent(dice, stranger.event(pathname, method)))}`),
    () => never(`Nostr ${base64('['.repeat(dice.pick([10, 1_000, 10_000])))}`),
    () => ({ headers: nostr(signedWrong(dice, asked)), proves: 'never' }),
    () => ({ headers: nostr(signedOddly(dice, asked)), proves: 'maybe' }),
    () => never(`Bearer ${damagedBase64(dice, stranger.jwt)}`),
    () => never(`Bearer ${forged(dice, stranger)}`),
    () => ({ headers: [['authorization', `Bearer ${stranger.jwt}`]], proves: 'never' }),
    () => ({
      headers: [...bearer(damagedBase64(dice, stranger.jwt)), ...bearer(stranger.jwt)],
      proves: 'maybe',
    }),
  ])();
}

/** A payment for a name (NUT-24) that is none: nobody has ever had these proofs. */
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
  return dice.pick<() => string>([
    () => token,
    () => damagedBase64(dice, token),
    () => token.slice(0, Math.floor(dice.roll() * token.length)),
    () => `cashuA${base64(JSON.stringify({ token: strangeValue(dice) }))}`,
    () => `cashuA${base64('{"token":[{"mint":"x","proofs":[{"amount":-1e308}]}]}')}`,
    () => `cashuB${base64(strangeText(dice, 500))}`,
    // CBOR that promises more than it has: arrays, maps and texts of 2^32 items, tags without end.
    () =>
      `cashuB${Buffer.from(dice.pick(['9affffffff', 'baffffffff', '7affffffff', '5bffffffffffffffff', '9f9f9f', 'c1'.repeat(400), '81'.repeat(5_000)]), 'hex').toString('base64url')}`,
    () => `cashuC${strangeText(dice, 100)}`,
    () => 'c'.repeat(dice.pick([1, 1_000, 60_000])),
    () => strangeText(dice, 2_000),
  ])();
}

function never(authorization: string): Credentials {
  return {
    headers: [
      ['authorization', authorization],
      ['user-agent', USER_AGENT],
    ],
    proves: 'never',
  };
}

function nostr(event: string): [string, string][] {
  return [['authorization', `Nostr ${base64(event)}`]];
}

function bearer(jwt: string): [string, string][] {
  return [
    ['authorization', `Bearer ${jwt}`],
    ['user-agent', USER_AGENT],
  ];
}

/** Cut or changed where it matters: not in its last bits, which base64 may not use. */
function damagedBase64(dice: Dice, text: string): string {
  const place = Math.floor(dice.between(0.1, 0.9) * text.length);
  const other = text.charAt(place) === 'A' ? 'B' : 'A';
  return dice.pick([
    text.slice(0, place),
    text.slice(place),
    text.slice(0, place) + other + text.slice(place + 1),
    `${text.slice(0, place)}AAAA${text.slice(place)}`,
  ]);
}

/** One field is another, and the signature is not. */
function mutatedEvent(dice: Dice, event: string): string {
  const parsed = JSON.parse(event) as Record<string, unknown>;
  const field = dice.pick(['id', 'pubkey', 'sig', 'kind', 'created_at', 'content', 'tags']);
  const before = JSON.stringify(parsed[field]);
  const value = dice.happens(0.5)
    ? strangeValue(dice)
    : dice.pick([
        '0'.repeat(64),
        'f'.repeat(128),
        -1,
        1e300,
        27_235.5,
        [['u']],
        [[]],
        'g'.repeat(64),
      ]);
  const isSame = JSON.stringify(value) === before;
  return JSON.stringify({ ...parsed, [field]: isSame ? null : value });
}

/** Signed by its key, and not for this request. */
function signedWrong(dice: Dice, { stranger, pathname, method }: Asked): string {
  const right = stranger.template(pathname, method);
  const now = right.created_at;
  return stranger.sign(
    dice.pick([
      { ...right, kind: dice.pick([1, 0, 22_242, 65_535]) },
      { ...right, created_at: dice.pick([0, now - TWO_MINUTES, now + TWO_MINUTES, 2 ** 32 - 1]) },
      {
        ...right,
        tags: [
          ['u', 'https://elsewhere.test/'],
          ['method', method],
        ],
      },
      {
        ...right,
        tags: [
          ['u', `http://user@127.0.0.1${pathname}`],
          ['method', method],
        ],
      },
      {
        ...right,
        tags: [
          ['u', strangeText(dice, 500)],
          ['method', method],
        ],
      },
      { ...right, tags: [...right.tags.slice(0, 1), ['method', 'BREW']] },
      { ...right, tags: right.tags.slice(0, 1) },
      { ...right, tags: [] },
      { ...right, tags: [...right.tags, ['payload', '0'.repeat(64)]].slice(1) },
    ]),
  );
}

/** Signed for this request, in a way that a client may. */
function signedOddly(dice: Dice, { stranger, pathname, method }: Asked): string {
  const right = stranger.template(pathname, method);
  return stranger.sign(
    dice.pick([
      { ...right, created_at: right.created_at - HALF_A_MINUTE },
      { ...right, content: strangeText(dice, 3_000) },
      { ...right, tags: [...right.tags, ['u', 'https://elsewhere.test/'], []] },
      { ...right, tags: [...right.tags, ['payload', '0'.repeat(64)]] },
      { ...right, tags: [...right.tags, ...new Array<string[]>(500).fill(['x', 'y'])] },
    ]),
  );
}

function forged(dice: Dice, stranger: Stranger): string {
  const [header = '', payload = '', signature = ''] = stranger.jwt.split('.');
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
  const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url');
  const secret = dice.pick(['', 'secret', 'x'.repeat(64)]);
  return dice.pick<() => string>([
    () => `${none}.${payload}.`,
    () => `${none}.${payload}.${signature}`,
    () => forgedJwt({ alg: 'HS256' }, claims, secret),
    () =>
      forgedJwt(
        { alg: dice.pick(['HS384', 'HS512', 'RS256', 'ES256', 'hs256', 'None']) },
        claims,
        secret,
      ),
    () =>
      forgedJwt(
        { alg: 'HS256', kid: '../../dev/null', jku: 'http://127.0.0.1:1', crit: ['x'] },
        claims,
        secret,
      ),
    () => forgedJwt({ alg: 'HS256', jwk: { kty: 'oct', k: 'eA' } }, claims, 'x'),
    () =>
      `${header}.${Buffer.from(JSON.stringify({ ...claims, sub: '0'.repeat(64) })).toString('base64url')}.${signature}`,
    () =>
      `${header}.${Buffer.from(JSON.stringify({ ...claims, exp: 1e300, iat: strangeValue(dice) })).toString('base64url')}.${signature}`,
    () => `${header}.${payload}`,
    () => `${header}.${payload}.${signature}.${signature}`,
    () => `${header}..${signature}`,
    () => '..',
    () => `${stranger.jwt}.`.repeat(20),
  ])();
}
