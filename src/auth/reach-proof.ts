import { errors, jwtVerify, SignJWT } from 'jose';
import { z } from 'zod';

const ALGORITHM = 'HS256';

/** No wallet's token has these: the one is never taken for the other. */
const QUESTION = 'nutpost:reach?';
const ANSWER = 'nutpost:reach';

/** Long enough for clocks that are not quite right, twice: what is over is borne with for as long again. */
const LIFETIME_SECONDS = 120;

/** How a request looked where it arrived. */
const reachedAs = z.object({
  /**
   * From where the connection came (the client, or the proxy next to the service), as far as proxies are
   * trusted: the last is whom the service takes for the client.
   */
  addresses: z.tuple([z.string()], z.string()),
  /** How many addresses in `X-Forwarded-For` were named by somebody who is not trusted. */
  unbelieved: z.number(),
  protocol: z.string(),
  /** As the request's `Host`, or what a trusted proxy said it was. */
  host: z.string(),
  /** The public origin that answers to this request are made for. */
  origin: z.string(),
  /** All that the service has. */
  origins: z.array(z.string()),
});

/** How a request looked where it arrived. */
export type ReachedAs = z.infer<typeof reachedAs>;

/**
 * Lets who knows the service's secret find out whether an address leads to it, and how requests look when
 * they arrive: the question is signed, and so is the answer, with `JWT_SECRET`. Strangers can neither ask
 * nor pretend.
 */
export class ReachProof {
  readonly #key: Uint8Array;

  /** @param secret `JWT_SECRET` */
  constructor(secret: string) {
    this.#key = Buffer.from(secret);
  }

  /** @param nonce what nobody can guess */
  ask(nonce: string, nowSeconds: number): Promise<string> {
    return this.#sign({ nonce }, QUESTION, nowSeconds);
  }

  /**
   * Answers a question.
   *
   * @returns null where it is none of ours, or is too old
   */
  async answer(question: string, seen: ReachedAs, nowSeconds: number): Promise<string | null> {
    const nonce = (await this.#verify(question, QUESTION, nowSeconds))?.['nonce'];
    return nonce === undefined ? null : this.#sign({ nonce, seen }, ANSWER, nowSeconds);
  }

  /** @returns null where it is no answer of this service to the question with this nonce */
  async read(answer: string, nonce: string, nowSeconds: number): Promise<ReachedAs | null> {
    const claims = await this.#verify(answer, ANSWER, nowSeconds);
    return claims?.['nonce'] === nonce ? (reachedAs.safeParse(claims['seen']).data ?? null) : null;
  }

  #sign(claims: Record<string, unknown>, purpose: string, nowSeconds: number): Promise<string> {
    return new SignJWT(claims)
      .setProtectedHeader({ alg: ALGORITHM })
      .setIssuer(purpose)
      .setExpirationTime(nowSeconds + LIFETIME_SECONDS)
      .sign(this.#key);
  }

  async #verify(
    token: string,
    purpose: string,
    nowSeconds: number,
  ): Promise<Record<string, unknown> | null> {
    try {
      const { payload } = await jwtVerify(token, this.#key, {
        algorithms: [ALGORITHM],
        issuer: purpose,
        requiredClaims: ['exp', 'nonce'],
        currentDate: new Date(nowSeconds * 1000),
        clockTolerance: LIFETIME_SECONDS,
      });
      return payload;
    } catch (error) {
      if (error instanceof errors.JOSEError) {
        return null;
      }
      throw error;
    }
  }
}
