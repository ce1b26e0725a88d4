import { hash } from 'node:crypto';
import { errors, jwtVerify, SignJWT } from 'jose';

const LIFETIME_SECONDS = 30 * 60;

const ISSUER = 'nutpost';
const ALGORITHM = 'HS256';

/** How far the clock of the issuing process may be ahead. NIP-98 events have the same tolerance. */
const CLOCK_SKEW_SECONDS = 60;

/** Issues and verifies JWTs. Accepts only HS256, whatever the header of a token contains. */
export class JwtIssuer {
  readonly #secret: Uint8Array;
  readonly #previousSecrets: readonly Uint8Array[];

  /** @param previousSecret also verifies tokens, after the operator has replaced the secret */
  constructor(secret: string, previousSecret: string | null) {
    this.#secret = Buffer.from(secret);
    this.#previousSecrets = previousSecret === null ? [] : [Buffer.from(previousSecret)];
  }

  async issue(pubkey: string, userAgent: string | undefined, nowSeconds: number): Promise<string> {
    return new SignJWT({ ua: hashUserAgent(userAgent) })
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
      .setSubject(pubkey)
      .setIssuer(ISSUER)
      .setIssuedAt(nowSeconds)
      .setExpirationTime(nowSeconds + LIFETIME_SECONDS)
      .sign(this.#secret);
  }

  async verify(
    token: string,
    userAgent: string | undefined,
    nowSeconds: number,
  ): Promise<string | null> {
    for (const secret of [this.#secret, ...this.#previousSecrets]) {
      try {
        const { payload } = await jwtVerify(token, secret, {
          algorithms: [ALGORITHM],
          issuer: ISSUER,
          requiredClaims: ['sub', 'ua', 'iat', 'exp'],
          currentDate: new Date(nowSeconds * 1000),
        });
        const { sub = '', exp = 0, ua } = payload;
        const isValid =
          ua === hashUserAgent(userAgent) &&
          exp <= nowSeconds + LIFETIME_SECONDS + CLOCK_SKEW_SECONDS &&
          /^[0-9a-f]{64}$/.test(sub);
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

/** A missing header counts as empty. */
function hashUserAgent(userAgent = ''): string {
  return hash('sha256', userAgent, 'base64url');
}
