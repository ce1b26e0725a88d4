import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type Clock, toUnixSeconds } from '../clock.ts';
import { Refusal } from '../errors.ts';
import type { EventVerifier } from '../nostr/events.ts';
import { payloadMatches, verifyNip98 } from '../nostr/nip98.ts';
import type { JwtIssuer } from './jwt.ts';
import type { PublicHost } from './public-host.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Hex key of the authenticated user; empty on public routes. */
    pubkey: string;
    /** The hash of the body that a NIP-98 event signs; null if it signs none. */
    bodyHash: string | null;
  }
}

/** Events and tokens of wallets have about 1 KB. Parsing a long one, signed or not, would hold up other requests. */
const MAX_CREDENTIAL_LENGTH = 8 * 1024;

interface AuthenticatorParts {
  verifyEvent: EventVerifier;
  jwt: Pick<JwtIssuer, 'verify'>;
  publicHost: PublicHost;
  clock: Clock;
}

/** Authenticates the requests to the routes of a scope (spec.md section 5). */
export class Authenticator {
  readonly #parts: AuthenticatorParts;

  constructor(parts: AuthenticatorParts) {
    this.#parts = parts;
  }

  /** Hook: a NIP-98 event or a JWT. */
  readonly requireUser = async (request: FastifyRequest): Promise<void> => {
    const authorization = readAuthorization(request);
    if (authorization?.scheme === 'nostr') {
      this.#acceptEvent(authorization.value, request);
    } else if (authorization?.scheme === 'bearer') {
      await this.#acceptToken(authorization.value, request);
    } else {
      throw new Refusal('unauthorized', 'Authorization with Nostr (NIP-98) or Bearer is required.');
    }
  };

  /** Hook: a NIP-98 event only. */
  readonly requireEvent = async (request: FastifyRequest): Promise<void> => {
    const authorization = readAuthorization(request);
    if (authorization?.scheme !== 'nostr') {
      throw new Refusal('unauthorized', 'Authorization with Nostr (NIP-98) is required.');
    }
    this.#acceptEvent(authorization.value, request);
  };

  /** Hook, for after the body was read: rejects a body that the event does not sign. */
  readonly requireSignedBody = async (request: FastifyRequest): Promise<void> => {
    const body = request.rawBody ?? Buffer.alloc(0);
    if (request.bodyHash !== null && !payloadMatches(request.bodyHash, body)) {
      throw new Refusal('unauthorized', 'The payload tag does not fit the body.');
    }
  };

  /**
   * Verifies an event that was signed for a URL of ours.
   *
   * @param encoded what follows `Nostr `
   * @throws Refusal (unauthorized)
   */
  checkEvent(
    encoded: string,
    pathname: string,
    method: string,
  ): { pubkey: string; payload: string | null } {
    refuseLong(encoded);
    const { verifyEvent, publicHost, clock } = this.#parts;
    const nowSeconds = toUnixSeconds(clock());
    const expected = { method, pathname, origins: publicHost.origins, nowSeconds };
    const result = verifyNip98(encoded, expected, verifyEvent);
    if (result.outcome === 'refused') {
      throw new Refusal('unauthorized', result.reason);
    }
    return result;
  }

  #acceptEvent(encoded: string, request: FastifyRequest): void {
    const pathname = (request.raw.url ?? '/').replace(/\?.*$/, '');
    const { pubkey, payload } = this.checkEvent(encoded, pathname, request.method);
    request.pubkey = pubkey;
    request.bodyHash = payload;
  }

  async #acceptToken(token: string, request: FastifyRequest): Promise<void> {
    refuseLong(token);
    const { jwt, clock } = this.#parts;
    const pubkey = await jwt.verify(token, userAgentOf(request), toUnixSeconds(clock()));
    if (pubkey === null) {
      throw new Refusal('unauthorized', 'The token is invalid or expired.');
    }
    request.pubkey = pubkey;
  }
}

/** Declares what {@link Authenticator}'s hooks set. */
export function decorateForAuthentication(app: FastifyInstance): void {
  app.decorateRequest('pubkey', '');
  app.decorateRequest('bodyHash', null);
}

/** The header that a JWT is bound to; a missing one counts as empty. */
export function userAgentOf(request: FastifyRequest): string {
  return request.headers['user-agent'] ?? '';
}

function refuseLong(credential: string): void {
  if (credential.length > MAX_CREDENTIAL_LENGTH) {
    throw new Refusal(
      'unauthorized',
      `The authorization is longer than ${MAX_CREDENTIAL_LENGTH} characters.`,
    );
  }
}

function readAuthorization(request: FastifyRequest): { scheme: string; value: string } | null {
  const match = /^(\S+)\s+(\S+)\s*$/.exec(request.headers.authorization ?? '');
  return match?.[1] === undefined || match[2] === undefined
    ? null
    : { scheme: match[1].toLowerCase(), value: match[2] };
}
