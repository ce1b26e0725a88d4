import { createHash, createHmac, generateKeyPairSync } from 'node:crypto';
import { CompactSign, decodeJwt, decodeProtectedHeader, SignJWT } from 'jose';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { JwtIssuer } from '../../src/auth/jwt.ts';

const SECRET = 'a secret of thirty-two characters';
const NEXT_SECRET = 'another secret of 32 letters and more';
const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const AGENT = 'wallet/1';
const NOW = 1_800_000_000;
const LIFETIME = 30 * 60;

/** Tokens that an issuer remembers at most; of too many, a hundredth is forgotten at once. */
const MAX_REMEMBERED = 10_000;

describe('a token', () => {
  const issuer = new JwtIssuer(SECRET, null);

  it('says whose it is, and until when', async () => {
    const token = await issuer.issue(PUBKEY, AGENT, NOW);
    expect(decodeProtectedHeader(token)).toEqual({ alg: 'HS256', typ: 'JWT' });
    expect(decodeJwt(token)).toEqual({
      iss: 'nutpost',
      sub: PUBKEY,
      ua: expect.stringMatching(/^[\w-]{43}$/),
      iat: NOW,
      exp: NOW + LIFETIME,
    });
  });

  it.each([
    ['at once', AGENT, NOW, PUBKEY],
    ['to the last second', AGENT, NOW + LIFETIME - 1, PUBKEY],
    ['not a second longer', AGENT, NOW + LIFETIME, null],
    ['not for another program', 'wallet/2', NOW, null],
    ['not for one without a name', '', NOW, null],
  ])('is good %s', async (_case, agent, now, expected) => {
    const token = await issuer.issue(PUBKEY, AGENT, NOW);
    expect(await issuer.verify(token, agent, now)).toBe(expected);
  });

  it('is good for a program without a name where it was issued to one', async () => {
    const token = await issuer.issue(PUBKEY, '', NOW);
    expect(await issuer.verify(token, '', NOW)).toBe(PUBKEY);
    expect(await issuer.verify(token, AGENT, NOW)).toBeNull();
  });

  it('that was used before is good to its last second, and for its program alone', async () => {
    const token = await issuer.issue(PUBKEY, AGENT, NOW);
    expect(await issuer.verify(token, AGENT, NOW)).toBe(PUBKEY);
    expect(await issuer.verify(token, 'wallet/2', NOW)).toBeNull();
    expect(await issuer.verify(token, AGENT, NOW + LIFETIME - 1)).toBe(PUBKEY);
    expect(await issuer.verify(token, AGENT, NOW + LIFETIME)).toBeNull();
  });

  it('used before ten thousand others is still good, by another check of its signature', async () => {
    const checks = vi.spyOn(crypto.subtle, 'verify');
    onTestFinished(() => checks.mockRestore());
    const ownIssuer = new JwtIssuer(SECRET, null);
    const use = async (user: number) => {
      const pubkey = user.toString(16).padStart(64, '0');
      const token = await ownIssuer.issue(pubkey, AGENT, NOW);
      expect(await ownIssuer.verify(token, AGENT, NOW)).toBe(pubkey);
    };
    for (let user = 0; user <= MAX_REMEMBERED; user += 1) {
      await use(user);
    }
    expect(checks).toHaveBeenCalledTimes(MAX_REMEMBERED + 1);
    await use(MAX_REMEMBERED);
    await use(MAX_REMEMBERED / 10);
    expect(checks).toHaveBeenCalledTimes(MAX_REMEMBERED + 1);
    await use(0);
    expect(checks).toHaveBeenCalledTimes(MAX_REMEMBERED + 2);
  });

  it.each(['', 'a', 'a.b', 'a.b.c', '..', 'e30.e30.', 'null.null.null', 'x'.repeat(10_000)])(
    'is not %j',
    async (text) => {
      expect(await issuer.verify(text, AGENT, NOW)).toBeNull();
    },
  );

  it('changed in any letter is none', async () => {
    const token = await issuer.issue(PUBKEY, AGENT, NOW);
    for (const position of [1, 10, 60, token.length - 5]) {
      const letter = token[position] === 'A' ? 'B' : 'A';
      const changed = `${token.slice(0, position)}${letter}${token.slice(position + 1)}`;
      expect(await issuer.verify(changed, AGENT, NOW), String(position)).toBeNull();
    }
  });
});

/** Made by hand, as no issuer of ours makes them. */
describe('a token that was made elsewhere', () => {
  const issuer = new JwtIssuer(SECRET, null);
  const userOf = (token: string) => issuer.verify(token, AGENT, NOW);

  it('is good where it is just as ours', async () => {
    expect(await userOf(await forge({}))).toBe(PUBKEY);
  });

  it.each<[string, Record<string, unknown>]>([
    ['without an end', { exp: undefined }],
    ['without a beginning', { iat: undefined }],
    ['of nobody', { sub: undefined }],
    ['of what is no key', { sub: 'alice' }],
    ['of a key in upper case', { sub: PUBKEY.toUpperCase() }],
    ['of several keys', { sub: [PUBKEY, PUBKEY] }],
    ['for any program', { ua: undefined }],
    ['of another issuer', { iss: 'somebody' }],
    ['of no issuer', { iss: undefined }],
    ['that is over', { exp: NOW }],
    ['that has not begun', { nbf: NOW + 1 }],
    ['with an end that is a text', { exp: String(NOW + 60) }],
    ['with an end that is no number', { exp: 'never' }],
    ['that is good for a year', { exp: NOW + 365 * 86_400 }],
    ['that is good for longer than clocks explain', { exp: NOW + LIFETIME + 61 }],
  ])('is not good %s, though signed with our secret', async (_case, claims) => {
    expect(await userOf(await forge(claims))).toBeNull();
  });

  it('is good though the clock of the process that issued it is a little ahead', async () => {
    const token = await issuer.issue(PUBKEY, AGENT, NOW + 60);
    expect(await userOf(token)).toBe(PUBKEY);
  });

  it.each(['none', 'None', 'NONE', '', 'HS384', 'HS512', 'RS256', 'ES256', 'EdDSA', 'hs256'])(
    'is not good with the algorithm %j, whatever its signature',
    async (alg) => {
      const body = `${encode({ alg, typ: 'JWT' })}.${encode(claimsOf({}))}`;
      const macs = ['sha256', 'sha384', 'sha512'].map((hash) =>
        createHmac(hash, SECRET).update(body).digest('base64url'),
      );
      for (const signature of ['', ...macs]) {
        expect(await userOf(`${body}.${signature}`)).toBeNull();
      }
    },
  );

  it('is not good without an algorithm', async () => {
    const body = `${encode({ typ: 'JWT' })}.${encode(claimsOf({}))}`;
    const signature = createHmac('sha256', SECRET).update(body).digest('base64url');
    expect(await userOf(`${body}.${signature}`)).toBeNull();
  });

  it.each<[string, object]>([
    ['brings its own key', { jwk: { kty: 'oct', k: encodeText('k'.repeat(32)) } }],
    ['names a key', { kid: '../../../../dev/null' }],
    ['names a place for keys', { jku: 'https://attacker.example/jwks.json' }],
    ['names a certificate', { x5u: 'https://attacker.example/cert.pem' }],
  ])('is not good where its header %s, and it is signed with that', async (_case, header) => {
    expect(await userOf(await forge({}, header, 'k'.repeat(32)))).toBeNull();
    expect(await userOf(await forge({}, header, ''.padEnd(32, '\0')))).toBeNull();
  });

  it('is not good where its header has a part that we must understand and do not', async () => {
    const sign = (header: object) => {
      const body = `${encode({ alg: 'HS256', ...header })}.${encode(claimsOf({}))}`;
      return `${body}.${createHmac('sha256', SECRET).update(body).digest('base64url')}`;
    };
    expect(await userOf(sign({}))).toBe(PUBKEY);
    expect(await userOf(sign({ crit: ['exp'], exp: NOW + 60 }))).toBeNull();
    expect(await userOf(sign({ crit: ['b64'], b64: false }))).toBeNull();
    expect(await userOf(sign({ crit: [] }))).toBeNull();
  });

  it('is not good where a key pair signed it', async () => {
    const { privateKey } = generateKeyPairSync('ed25519');
    const token = await new CompactSign(Buffer.from(JSON.stringify(claimsOf({}))))
      .setProtectedHeader({ alg: 'EdDSA' })
      .sign(privateKey);
    expect(await userOf(token)).toBeNull();
  });

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
    return encodeText(JSON.stringify(part));
  }

  function encodeText(text: string): string {
    return Buffer.from(text).toString('base64url');
  }
});

describe('a change of the secret', () => {
  it('keeps older tokens good while the older secret is known, and signs with the newer', async () => {
    const older = new JwtIssuer(SECRET, null);
    const between = new JwtIssuer(NEXT_SECRET, SECRET);
    const newer = new JwtIssuer(NEXT_SECRET, null);
    const old = await older.issue(PUBKEY, AGENT, NOW);
    const fresh = await between.issue(PUBKEY, AGENT, NOW);
    expect(await between.verify(old, AGENT, NOW)).toBe(PUBKEY);
    expect(await between.verify(fresh, AGENT, NOW)).toBe(PUBKEY);
    expect(await newer.verify(fresh, AGENT, NOW)).toBe(PUBKEY);
    expect(await newer.verify(old, AGENT, NOW)).toBeNull();
    expect(await older.verify(fresh, AGENT, NOW)).toBeNull();
    expect(await between.verify(old, AGENT, NOW + LIFETIME)).toBeNull();
  });

  it('may reach one process after another, where each knows both secrets', async () => {
    const changed = new JwtIssuer(NEXT_SECRET, SECRET);
    const unchanged = new JwtIssuer(SECRET, NEXT_SECRET);
    for (const [from, to] of [
      [changed, unchanged],
      [unchanged, changed],
    ] as const) {
      expect(await to.verify(await from.issue(PUBKEY, AGENT, NOW), AGENT, NOW)).toBe(PUBKEY);
    }
  });
});
