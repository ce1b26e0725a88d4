import { decodeJwt, decodeProtectedHeader } from 'jose';
import { describe, expect, it } from 'vitest';
import { JwtIssuer } from '../../src/auth/jwt.ts';

const SECRET = 'a secret of thirty-two characters';
const NEXT_SECRET = 'another secret of 32 letters and more';
const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const AGENT = 'wallet/1';
const NOW = 1_800_000_000;
const LIFETIME = 30 * 60;

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
});
