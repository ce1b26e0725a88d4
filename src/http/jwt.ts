import { createHmac, hash } from 'node:crypto';
import { errors, jwtVerify } from 'jose';

const JWT_LIFETIME_SECONDS = 30 * 60;

const ISSUER = 'nutpost';
const ALGORITHM = 'HS256';
const ENCODED_HEADER = encodeBase64Url({ alg: ALGORITHM, typ: 'JWT' });
const HEX_PUBKEY = /^[0-9a-f]{64}$/;

/** How far the clock of the issuing process may be ahead. NIP-98 events have the same tolerance. */
const CLOCK_SKEW_SECONDS = 60;

/** Issues and verifies JWTs. Accepts only HS256, whatever the header of a token contains. */
export class JwtIssuer {
  readonly #secret: string;
  readonly #verificationKeys: readonly Promise<CryptoKey>[];

  /** @param previousSecret also verifies tokens, after the operator has replaced the secret; null if there is none */
  constructor(secret: string, previousSecret: string | null) {
    this.#secret = secret;
    const secrets = previousSecret === null ? [secret] : [secret, previousSecret];
    this.#verificationKeys = secrets.map(importVerificationKey);
  }

  /** Returns a token for a public key (hex), valid for 30 minutes and bound to a `User-Agent`. */
  issue(pubkey: string, userAgent: string | undefined, nowSeconds: number): string {
    const claims = {
      ua: hashUserAgent(userAgent),
      sub: pubkey,
      iss: ISSUER,
      iat: nowSeconds,
      exp: nowSeconds + JWT_LIFETIME_SECONDS,
    };
    // Does not use jose, which signs in another thread. That takes as long as verifying a Nostr signature.
    const signingInput = `${ENCODED_HEADER}.${encodeBase64Url(claims)}`;
    const signature = createHmac('sha256', this.#secret).update(signingInput).digest('base64url');
    return `${signingInput}.${signature}`;
  }

  /** Returns the public key (hex) of the token's user, or null if the token is invalid or expired. */
  async verify(
    token: string,
    userAgent: string | undefined,
    nowSeconds: number,
  ): Promise<string | null> {
    for (const key of this.#verificationKeys) {
      try {
        const { payload } = await jwtVerify(token, await key, {
          algorithms: [ALGORITHM],
          issuer: ISSUER,
          requiredClaims: ['sub', 'ua', 'iat', 'exp'],
          currentDate: new Date(nowSeconds * 1000),
        });
        const { sub = '', exp = 0, ua } = payload;
        const isValid =
          ua === hashUserAgent(userAgent) &&
          exp <= nowSeconds + JWT_LIFETIME_SECONDS + CLOCK_SKEW_SECONDS &&
          HEX_PUBKEY.test(sub);
        return isValid ? sub : null;
      } catch (error) {
        if (!(error instanceof errors.JOSEError)) {
          throw error;
        }
      }
    }
    return null;
  }
}

/** Imports a key once. Without this, jose would import the raw bytes for every token. */
function importVerificationKey(secret: string): Promise<CryptoKey> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  return crypto.subtle.importKey('raw', Buffer.from(secret), algorithm, false, ['verify']);
}

function encodeBase64Url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** A missing header counts as empty. */
function hashUserAgent(userAgent = ''): string {
  return hash('sha256', userAgent, 'base64url');
}
