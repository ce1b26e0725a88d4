import { createHash, createHmac } from 'node:crypto';
import { SignJWT } from 'jose';
import { describe, expect, it } from 'vitest';
import { JwtIssuer } from '../../../src/http/jwt.ts';

const SECRET = 'a secret of thirty-two characters';
const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const USER_AGENT = 'wallet/1';
const NOW_SECONDS = 1_800_000_000;
const LIFETIME_SECONDS = 30 * 60;
const MAX_CLOCK_SKEW_SECONDS = 60;

// test/acceptance/authentication.test.ts covers lifetimes, User-Agents and secret rotation.

const issuer = new JwtIssuer(SECRET, null);

describe('JwtIssuer', () => {
  it('accepts a token from a clock that is a minute ahead', async () => {
    const token = await issuer.issue(PUBKEY, USER_AGENT, NOW_SECONDS + MAX_CLOCK_SKEW_SECONDS);
    expect(await verify(token)).toBe(PUBKEY);
  });

  it.each(['', 'a.b', 'a.b.c', '..', 'e30.e30.', 'null.null.null', 'x'.repeat(10_000)])(
    'rejects the token %j',
    async (token) => {
      expect(await verify(token)).toBeNull();
    },
  );

  it.each([1, 10, 60, -5])('rejects a token with character %i changed', async (position) => {
    const token = await issuer.issue(PUBKEY, USER_AGENT, NOW_SECONDS);
    const replacement = token.at(position) === 'A' ? 'B' : 'A';
    expect(await verify([...token].with(position, replacement).join(''))).toBeNull();
  });
});

describe('JwtIssuer with tokens that another program signed', () => {
  it.each<Record<string, unknown>>([
    { exp: undefined },
    { iat: undefined },
    { sub: undefined },
    { sub: 'alice' },
    { sub: PUBKEY.toUpperCase() },
    { ua: undefined },
    { iss: 'stranger' },
    { exp: NOW_SECONDS },
    { nbf: NOW_SECONDS + 1 },
    { exp: NOW_SECONDS + 365 * 86_400 },
    { exp: NOW_SECONDS + LIFETIME_SECONDS + MAX_CLOCK_SKEW_SECONDS + 1 },
  ])('rejects a token with the claims %j', async (claims) => {
    expect(await verify(await signToken(claims))).toBeNull();
  });

  it.each([undefined, 'none', 'None', 'NONE', '', 'HS384', 'HS512', 'RS256', 'EdDSA', 'hs256'])(
    'rejects a token with the algorithm %j and any signature',
    async (alg) => {
      const signedText = `${encodePart({ alg, typ: 'JWT' })}.${encodePart(claimsWith({}))}`;
      const macs = ['sha256', 'sha384', 'sha512'].map((hash) =>
        createHmac(hash, SECRET).update(signedText).digest('base64url'),
      );
      for (const signature of ['', ...macs]) {
        expect(await verify(`${signedText}.${signature}`)).toBeNull();
      }
    },
  );

  it('rejects a token signed with the key in its header', async () => {
    const otherSecret = 'k'.repeat(32);
    const jwk = { kty: 'oct', k: Buffer.from(otherSecret).toString('base64url') };
    expect(await verify(await signToken({}, { jwk }, otherSecret))).toBeNull();
  });
});

function verify(token: string): Promise<string | null> {
  return issuer.verify(token, USER_AGENT, NOW_SECONDS);
}

function signToken(
  claims: Record<string, unknown>,
  header: object = {},
  secret = SECRET,
): Promise<string> {
  return new SignJWT(claimsWith(claims))
    .setProtectedHeader({ ...header, alg: 'HS256' })
    .sign(Buffer.from(secret));
}

function claimsWith(changes: Record<string, unknown>): Record<string, unknown> {
  const ua = createHash('sha256').update(USER_AGENT).digest('base64url');
  const exp = NOW_SECONDS + LIFETIME_SECONDS;
  return { iss: 'nutpost', sub: PUBKEY, ua, iat: NOW_SECONDS, exp, ...changes };
}

function encodePart(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}
