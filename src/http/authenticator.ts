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

/** Authenticates requests. Its hooks protect the routes of the scope that adds them. */
export class Authenticator {
  readonly #context: HttpContext;

  constructor(context: HttpContext) {
    this.#context = context;
  }

  readonly requireNip98OrJwt = async (request: FastifyRequest): Promise<void> => {
    const { scheme, credential } = parseAuthorizationHeader(request);
    if (scheme === 'nostr') {
      this.#authenticateWithNip98(credential, request);
    } else if (scheme === 'bearer') {
      await this.#authenticateWithJwt(credential, request);
    } else {
      throw unauthorized('Authorization with Nostr (NIP-98) or Bearer is required.');
    }
  };

  readonly requireNip98 = async (request: FastifyRequest): Promise<void> => {
    const { scheme, credential } = parseAuthorizationHeader(request);
    if (scheme !== 'nostr') {
      throw unauthorized('Authorization with Nostr (NIP-98) is required.');
    }
    this.#authenticateWithNip98(credential, request);
  };

  /** Rejects a body that does not match the hash in the NIP-98 event. Must run after the body was read. */
  readonly requireMatchingPayloadHash = async (request: FastifyRequest): Promise<void> => {
    const { signedPayloadHash: hash, rawBody } = request;
    if (hash !== null && !payloadHashMatches(hash, rawBody ?? Buffer.alloc(0))) {
      throw unauthorized('The payload tag does not match the body.');
    }
  };

  /**
   * Verifies a NIP-98 event (base64) for a path on any of the public origins.
   *
   * @throws RequestError (`unauthorized`)
   */
  verifyNip98Event(
    encoded: string,
    pathname: string,
    method: string,
  ): { pubkey: string; payloadHash: string | null } {
    assertCredentialLength(encoded);
    const { verifyEvent, publicOrigins, clock } = this.#context;
    const nowSeconds = toUnixSeconds(clock());
    const expected = { method, pathname, origins: publicOrigins.origins, nowSeconds };
    const result = verifyNip98(encoded, expected, verifyEvent);
    if (result.outcome === 'rejected') {
      throw unauthorized(result.reason);
    }
    return result;
  }

  #authenticateWithNip98(encoded: string, request: FastifyRequest): void {
    const pathname = (request.raw.url ?? '/').replace(/\?.*$/, '');
    const { pubkey, payloadHash } = this.verifyNip98Event(encoded, pathname, request.method);
    request.pubkey = pubkey;
    request.signedPayloadHash = payloadHash;
  }

  async #authenticateWithJwt(token: string, request: FastifyRequest): Promise<void> {
    assertCredentialLength(token);
    const { jwt, clock } = this.#context;
    const userAgent = request.headers['user-agent'];
    const pubkey = await jwt.verify(token, userAgent, toUnixSeconds(clock()));
    if (pubkey === null) {
      throw unauthorized('The token is invalid or expired.');
    }
    request.pubkey = pubkey;
  }
}

function assertCredentialLength(credential: string): void {
  if (credential.length > MAX_CREDENTIAL_LENGTH) {
    throw unauthorized(`The authorization is longer than ${MAX_CREDENTIAL_LENGTH} characters.`);
  }
}

function parseAuthorizationHeader({ headers }: FastifyRequest) {
  const [, scheme = '', credential = ''] =
    /^(\S+)\s+(\S+)\s*$/.exec(headers.authorization ?? '') ?? [];
  return { scheme: scheme.toLowerCase(), credential };
}

function unauthorized(message: string): RequestError {
  return new RequestError('unauthorized', message);
}
