import { createSecretKey, hash } from 'node:crypto';
import { errors, jwtVerify, SignJWT } from 'jose';

const LIFETIME_SECONDS = 30 * 60;

const ISSUER = 'nutpost';
const ALGORITHM = 'HS256';

/** How far the clock of the process that issued a token may be ahead. NIP-98 events have the same tolerance. */
const CLOCK_SKEW_SECONDS = 60;

/** Issues and verifies JWTs. Accepts only HS256, whatever the header of a token contains. */
export class JwtIssuer {
  readonly #key: CryptoKey;
  readonly #verificationKeys: readonly CryptoKey[];

  /** @param previousSecret verifies tokens that were issued before the operator replaced the secret; null if unset */
  constructor(secret: string, previousSecret: string | null) {
    this.#key = importKey(secret);
    this.#verificationKeys =
      previousSecret === null ? [this.#key] : [this.#key, importKey(previousSecret)];
  }

  async issue(pubkey: string, userAgent: string | undefined, nowSeconds: number): Promise<string> {
    return new SignJWT({ ua: hashUserAgent(userAgent) })
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
      .setSubject(pubkey)
      .setIssuer(ISSUER)
      .setIssuedAt(nowSeconds)
      .setExpirationTime(nowSeconds + LIFETIME_SECONDS)
      .sign(this.#key);
  }

  /** Returns the public key of the user (hex), or null if the token is not valid for this User-Agent. */
  async verify(
    token: string,
    userAgent: string | undefined,
    nowSeconds: number,
  ): Promise<string | null> {
    for (const key of this.#verificationKeys) {
      try {
        const { payload } = await jwtVerify(token, key, {
          algorithms: [ALGORITHM],
          issuer: ISSUER,
          requiredClaims: ['sub', 'ua', 'iat', 'exp'],
          currentDate: new Date(nowSeconds * 1_000),
        });
        const { sub = '', exp = 0, ua } = payload;
        const maxExp = nowSeconds + LIFETIME_SECONDS + CLOCK_SKEW_SECONDS;
        const isValid =
          ua === hashUserAgent(userAgent) && exp <= maxExp && /^[0-9a-f]{64}$/.test(sub);
        return isValid ? sub : null;
      } catch (error) {
        // The token may have been signed with the other secret.
        if (!(error instanceof errors.JOSEError)) {
          throw error;
        }
      }
    }
    return null;
  }
}

/** With the secret itself, jose would import it for each token. */
function importKey(secret: string): CryptoKey {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = createSecretKey(secret, 'utf8').toCryptoKey(algorithm, false, ['sign', 'verify']);
  // The types of the browser and of Node list different usages.
  return key as CryptoKey;
}

function hashUserAgent(userAgent = ''): string {
  return hash('sha256', userAgent, 'base64url');
}
