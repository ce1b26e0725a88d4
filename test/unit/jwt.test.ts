import { createHash, createHmac } from 'node:crypto';
import { SignJWT } from 'jose';
import { describe, expect, it } from 'vitest';
import { JwtIssuer } from '../../src/http/jwt.ts';

const SECRET = 'a secret of thirty-two characters';
const OTHER_KEY = 'k'.repeat(32);
const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const AGENT = 'wallet/1';
const NOW = 1_800_000_000;
const LIFETIME = 30 * 60;

// test/acceptance/authentication.test.ts covers lifetimes, User-Agents and rotation.

const issuer = new JwtIssuer(SECRET, null);

describe('JwtIssuer', () => {
  it.each(['', 'a', 'a.b', 'a.b.c', '..', 'e30.e30.', 'null.null.null', 'x'.repeat(10_000)])(
    'rejects %j',
    async (text) => {
      expect(await userOf(text)).toBeNull();
    },
  );

  it.each([1, 10, 60, -5])('rejects a token with character %i changed', async (position) => {
    const token = issuer.issue(PUBKEY, AGENT, NOW);
    const letter = token.at(position) === 'A' ? 'B' : 'A';
    expect(await userOf([...token].with(position, letter).join(''))).toBeNull();
  });
});

describe('JwtIssuer with tokens signed by another program with its secret', () => {
  it('accepts its own format, from a clock up to a minute ahead', async () => {
    expect(await userOf(await forge({}))).toBe(PUBKEY);
    expect(await userOf(issuer.issue(PUBKEY, AGENT, NOW + 60))).toBe(PUBKEY);
  });

  it.each<Record<string, unknown>>([
    { exp: undefined },
    { iat: undefined },
    { sub: undefined },
    { sub: 'alice' },
    { sub: PUBKEY.toUpperCase() },
    { sub: [PUBKEY, PUBKEY] },
    { ua: undefined },
    { iss: 'stranger' },
    { iss: undefined },
    { exp: NOW },
    { nbf: NOW + 1 },
    { exp: String(NOW + 60) },
    { exp: NOW + 365 * 86_400 },
    { exp: NOW + LIFETIME + 61 },
  ])('rejects the claims %j', async (claims) => {
    expect(await userOf(await forge(claims))).toBeNull();
  });

  it.each([undefined, 'none', 'None', 'NONE', '', 'HS384', 'HS512', 'RS256', 'EdDSA', 'hs256'])(
    'rejects the algorithm %j with any signature',
    async (alg) => {
      const body = `${encode({ alg, typ: 'JWT' })}.${encode(claimsOf({}))}`;
      const macs = ['sha256', 'sha384', 'sha512'].map((hash) => mac(hash, body));
      for (const signature of ['', ...macs]) {
        expect(await userOf(`${body}.${signature}`)).toBeNull();
      }
    },
  );

  it.each([
    { jwk: { kty: 'oct', k: Buffer.from(OTHER_KEY).toString('base64url') } },
    { kid: '../../../../dev/null' },
    { jku: 'https://attacker.example/jwks.json' },
    { x5u: 'https://attacker.example/cert.pem' },
  ])('rejects the header %j with the key in it', async (header) => {
    expect(await userOf(await forge({}, header, OTHER_KEY))).toBeNull();
    expect(await userOf(await forge({}, header, '\0'.repeat(32)))).toBeNull();
  });

  it.each([{ crit: ['exp'], exp: NOW + 60 }, { crit: ['b64'], b64: false }, { crit: [] }])(
    'rejects the critical header %j',
    async (header) => {
      const body = `${encode({ alg: 'HS256', ...header })}.${encode(claimsOf({}))}`;
      expect(await userOf(`${body}.${mac('sha256', body)}`)).toBeNull();
    },
  );
});

function userOf(token: string): Promise<string | null> {
  return issuer.verify(token, AGENT, NOW);
}

function mac(hash: string, text: string): string {
  return createHmac(hash, SECRET).update(text).digest('base64url');
}

function forge(
  claims: Record<string, unknown>,
  header: object = {},
  secret = SECRET,
): Promise<string> {
  return new SignJWT(claimsOf(claims))
    .setProtectedHeader({ ...header, alg: 'HS256' })
    .sign(Buffer.from(secret));
}

function claimsOf(changes: Record<string, unknown>): Record<string, unknown> {
  const ua = createHash('sha256').update(AGENT).digest('base64url');
  return { iss: 'nutpost', sub: PUBKEY, ua, iat: NOW, exp: NOW + LIFETIME, ...changes };
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}
