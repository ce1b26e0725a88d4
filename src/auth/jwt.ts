import { createHash } from 'node:crypto';
import { errors, jwtVerify, SignJWT } from 'jose';
import { JWT_LIFETIME_SECONDS } from '../domain/limits.ts';

const ISSUER = 'nutpost';
const ALGORITHM = 'HS256';
const PUBKEY = /^[0-9a-f]{64}$/;

/** As far may the clock of the process that issued a token be ahead of ours, as with NIP-98. */
const CLOCK_SKEW_SECONDS = 60;

/**
 * Signs and checks the short-lived tokens of spec.md section 5. HS256 alone, whatever a token says of
 * itself, and a signature is compared in constant time (Web Crypto).
 */
export class JwtIssuer {
  readonly #signingKey: Uint8Array;
  readonly #acceptedKeys: readonly Uint8Array[];

  /**
   * @param secret signs, at least 32 characters
   * @param previousSecret still accepted while an operator changes the secret; null otherwise
   */
  constructor(secret: string, previousSecret: string | null) {
    this.#signingKey = Buffer.from(secret);
    this.#acceptedKeys = [secret, ...(previousSecret === null ? [] : [previousSecret])].map(
      (text) => Buffer.from(text),
    );
  }

  /**
   * Makes a token for a key, valid for 30 minutes and bound to the caller's `User-Agent`.
   *
   * @param pubkey hex
   * @param userAgent the header's value; a missing header counts as the empty string
   */
  issue(pubkey: string, userAgent: string, nowSeconds: number): Promise<string> {
    return new SignJWT({ ua: userAgentHash(userAgent) })
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
      .setSubject(pubkey)
      .setIssuer(ISSUER)
      .setIssuedAt(nowSeconds)
      .setExpirationTime(nowSeconds + JWT_LIFETIME_SECONDS)
      .sign(this.#signingKey);
  }

  /** @returns the key (hex) that the token was issued to, or null where the token is not valid now */
  async verify(token: string, userAgent: string, nowSeconds: number): Promise<string | null> {
    for (const key of this.#acceptedKeys) {
      const pubkey = await verifyWith(key, token, userAgent, nowSeconds);
      if (pubkey !== null) {
        return pubkey;
      }
    }
    return null;
  }
}

async function verifyWith(
  key: Uint8Array,
  token: string,
  userAgent: string,
  nowSeconds: number,
): Promise<string | null> {
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: [ALGORITHM],
      issuer: ISSUER,
      requiredClaims: ['sub', 'ua', 'iat', 'exp'],
      currentDate: new Date(nowSeconds * 1000),
    });
    const isOurs =
      payload['ua'] === userAgentHash(userAgent) &&
      Number(payload.exp) <= nowSeconds + JWT_LIFETIME_SECONDS + CLOCK_SKEW_SECONDS &&
      PUBKEY.test(String(payload.sub));
    return isOurs ? String(payload.sub) : null;
  } catch (error) {
    if (error instanceof errors.JOSEError) {
      return null;
    }
    throw error;
  }
}

function userAgentHash(userAgent: string): string {
  return createHash('sha256').update(userAgent).digest('base64url');
}
