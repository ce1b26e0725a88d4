import type { FastifyRequest } from 'fastify';
import { toUnixSeconds } from '../clock.ts';
import { RequestError } from '../errors.ts';
import { payloadHashMatches, verifyNip98 } from '../nostr/nip98.ts';
import type { HttpContext } from './context.ts';
import { MAX_CREDENTIAL_LENGTH } from './limits.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated user's public key in hex; empty on public routes. */
    pubkey: string;
    /** The hash of the body that the NIP-98 event signs; null if the event signs no hash. */
    signedPayloadHash: string | null;
  }
}

/** Has hooks that authenticate the user. They protect the routes of the scope that adds them. */
export class Authenticator {
  readonly #context: HttpContext;

  constructor(context: HttpContext) {
    this.#context = context;
  }

  readonly requireNip98 = (request: FastifyRequest) => this.#authenticate(request, ['nostr']);

  readonly requireNip98OrJwt = (request: FastifyRequest) =>
    this.#authenticate(request, ['nostr', 'bearer']);

  /** Rejects a body that does not match the hash in the NIP-98 event. Must run after the body was read. */
  readonly requireMatchingPayloadHash = async (request: FastifyRequest): Promise<void> => {
    const { signedPayloadHash, rawBody } = request;
    const body = rawBody ?? Buffer.alloc(0);
    if (signedPayloadHash !== null && !payloadHashMatches(signedPayloadHash, body)) {
      throw unauthorized('The payload tag does not match the body.');
    }
  };

  /** Verifies a NIP-98 event (base64) for a path on any of the public origins. @throws RequestError */
  verifyNip98Event(encoded: string, pathname: string, method: string) {
    assertCredentialLength(encoded);
    const { verifyEvent, publicOrigins, clock } = this.#context;
    const nowSeconds = toUnixSeconds(clock());
    const expected = { method, pathname, origins: publicOrigins.origins, nowSeconds };
    const result = verifyNip98(encoded, expected, verifyEvent);
    // A text is the reason of a rejection.
    if (typeof result === 'string') {
      throw unauthorized(result);
    }
    return result;
  }

  async #authenticate(request: FastifyRequest, schemes: readonly string[]): Promise<void> {
    const { authorization = '', 'user-agent': userAgent } = request.headers;
    const [, scheme = '', credential = ''] = /^(\S+)\s+(\S+)\s*$/.exec(authorization) ?? [];
    const acceptsJwt = schemes.includes('bearer');
    if (scheme.toLowerCase() === 'nostr') {
      const pathname = (request.raw.url ?? '/').replace(/\?.*$/, '');
      const event = this.verifyNip98Event(credential, pathname, request.method);
      request.pubkey = event.pubkey;
      request.signedPayloadHash = event.payloadHash;
    } else if (acceptsJwt && scheme.toLowerCase() === 'bearer') {
      assertCredentialLength(credential);
      const { jwt, clock } = this.#context;
      const pubkey = await jwt.verify(credential, userAgent, toUnixSeconds(clock()));
      if (pubkey === null) {
        throw unauthorized('The token is invalid or expired.');
      }
      request.pubkey = pubkey;
    } else {
      const accepted = acceptsJwt ? 'Nostr (NIP-98) or Bearer' : 'Nostr (NIP-98)';
      throw unauthorized(`Authorization with ${accepted} is required.`);
    }
  }
}

function assertCredentialLength(credential: string): void {
  if (credential.length > MAX_CREDENTIAL_LENGTH) {
    throw unauthorized(`The authorization is longer than ${MAX_CREDENTIAL_LENGTH} characters.`);
  }
}

function unauthorized(message: string): RequestError {
  return new RequestError('unauthorized', message);
}
