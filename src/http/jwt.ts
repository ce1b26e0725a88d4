import { createHmac, createSecretKey, hash, type KeyObject } from 'node:crypto';
import { errors, type JWTPayload, jwtVerify } from 'jose';

/** Lifetime of a JWT (spec.md section 8). */
const JWT_LIFETIME_SECONDS = 30 * 60;

const ISSUER = 'nutpost';
const ALGORITHM = 'HS256';
const HEADER = base64url({ alg: ALGORITHM, typ: 'JWT' });
const PUBKEY = /^[0-9a-f]{64}$/;

/** How far the clock of the process that issued a token may be ahead of ours, as with NIP-98. */
const CLOCK_SKEW_SECONDS = 60;

/**
 * Signs and verifies the short-lived tokens of spec.md section 5. It accepts HS256 only, whatever the header says, and
 * compares signatures in constant time (Web Crypto).
 */
export class JwtIssuer {
  readonly #signingKey: KeyObject;
  readonly #acceptedKeys: readonly Promise<CryptoKey>[];

  /**
   * @param secret signs, at least 32 characters
   * @param previousSecret still accepted while an operator changes the secret; null otherwise
   */
  constructor(secret: string, previousSecret: string | null) {
    this.#signingKey = createSecretKey(Buffer.from(secret));
    this.#acceptedKeys = [
      importKey(secret),
      ...(previousSecret === null ? [] : [importKey(previousSecret)]),
    ];
  }

  /**
   * Makes a token for a key, valid for 30 minutes and bound to the caller's `User-Agent`.
   *
   * @param pubkey hex
   * @param userAgent the header's value; a missing header counts as the empty string
   */
  async issue(pubkey: string, userAgent: string, nowSeconds: number): Promise<string> {
    const claims = {
      ua: hashOf(userAgent),
      sub: pubkey,
      iss: ISSUER,
      iat: nowSeconds,
      exp: nowSeconds + JWT_LIFETIME_SECONDS,
    };
    // jose signs in another thread, which takes as long as the check of a Nostr signature.
    const signed = `${HEADER}.${base64url(claims)}`;
    const signature = createHmac('sha256', this.#signingKey).update(signed).digest('base64url');
    return `${signed}.${signature}`;
  }

  /** @returns the key (hex) that the token was issued to, or null if the token is not valid now */
  async verify(token: string, userAgent: string, nowSeconds: number): Promise<string | null> {
    for (const key of this.#acceptedKeys) {
      const claims = await claimsOf(await key, token, nowSeconds);
      if (claims !== null) {
        const { sub = '', exp = 0, ua } = claims;
        const isOurs =
          ua === hashOf(userAgent) &&
          exp <= nowSeconds + JWT_LIFETIME_SECONDS + CLOCK_SKEW_SECONDS &&
          PUBKEY.test(sub);
        return isOurs ? sub : null;
      }
    }
    return null;
  }
}

/** Imported once: given the bytes, jose would import them for each token, which takes a third of the check. */
function importKey(secret: string): Promise<CryptoKey> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  return crypto.subtle.importKey('raw', Buffer.from(secret), algorithm, false, ['verify']);
}

/** @returns null if the token is not signed with the key, lacks a claim, or has expired */
async function claimsOf(
  key: CryptoKey,
  token: string,
  nowSeconds: number,
): Promise<JWTPayload | null> {
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: [ALGORITHM],
      issuer: ISSUER,
      requiredClaims: ['sub', 'ua', 'iat', 'exp'],
      currentDate: new Date(nowSeconds * 1000),
    });
    return payload;
  } catch (error) {
    if (error instanceof errors.JOSEError) {
      return null;
    }
    throw error;
  }
}

function base64url(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}

function hashOf(userAgent: string): string {
  return hash('sha256', userAgent, 'base64url');
}
