import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { EventVerifier } from '../auth/event-verifier.ts';
import type { JwtIssuer } from '../auth/jwt.ts';
import { payloadMatches, verifyNip98 } from '../auth/nip98.ts';
import { type Clock, toUnixSeconds } from '../domain/clock.ts';
import { Refusal } from '../domain/errors.ts';
import type { PublicHost } from './public-host.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Hex key of the authenticated user; empty on public routes. */
    pubkey: string;
    /** The hash that a NIP-98 event gives for the body, until the body is there to be compared. */
    bodyHash: string | null;
    /** The body's bytes as they came; null where there is none. */
    rawBody: Buffer | null;
  }
}

/** Who may call the routes of a scope (spec.md section 5). */
export class Authenticator {
  readonly #verifyEvent: EventVerifier;
  readonly #jwt: Pick<JwtIssuer, 'verify'>;
  readonly #publicHost: PublicHost;
  readonly #clock: Clock;

  constructor(parts: {
    verifyEvent: EventVerifier;
    jwt: Pick<JwtIssuer, 'verify'>;
    publicHost: PublicHost;
    clock: Clock;
  }) {
    this.#verifyEvent = parts.verifyEvent;
    this.#jwt = parts.jwt;
    this.#publicHost = parts.publicHost;
    this.#clock = parts.clock;
  }

  /** Hook: a NIP-98 event or a JWT. */
  readonly requireUser = async (request: FastifyRequest): Promise<void> => {
    const authorization = readAuthorization(request);
    switch (authorization?.scheme) {
      case 'nostr':
        this.#acceptEvent(authorization.value, request);
        return;
      case 'bearer':
        await this.#acceptToken(authorization.value, request);
        return;
      default:
        throw new Refusal(
          'unauthorized',
          'Authorization with Nostr (NIP-98) or Bearer is required.',
        );
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

  /** Hook, for after the body was read: it must be the one that the event was signed for. */
  readonly requireSignedBody = async (request: FastifyRequest): Promise<void> => {
    const body = request.rawBody ?? Buffer.alloc(0);
    if (request.bodyHash !== null && !payloadMatches(request.bodyHash, body)) {
      throw new Refusal('unauthorized', 'The payload tag does not fit the body.');
    }
  };

  /**
   * Checks an event that was signed for a url of ours.
   *
   * @param encoded what follows `Nostr `
   * @param pathname without its query
   * @throws Refusal (unauthorized)
   */
  checkEvent(
    encoded: string,
    pathname: string,
    method: string,
  ): { pubkey: string; payload: string | null } {
    const result = verifyNip98(
      encoded,
      {
        method,
        pathname,
        origins: this.#publicHost.origins,
        nowSeconds: toUnixSeconds(this.#clock()),
      },
      this.#verifyEvent,
    );
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
    const nowSeconds = toUnixSeconds(this.#clock());
    const pubkey = await this.#jwt.verify(token, userAgentOf(request), nowSeconds);
    if (pubkey === null) {
      throw new Refusal('unauthorized', 'The token is invalid or expired.');
    }
    request.pubkey = pubkey;
  }
}

/** Prepares every request of a server for {@link Authenticator}'s hooks. */
export function decorateForAuthentication(app: FastifyInstance): void {
  app.decorateRequest('pubkey', '');
  app.decorateRequest('bodyHash', null);
}

/** The header that a JWT is bound to; none counts as the empty string. */
export function userAgentOf(request: FastifyRequest): string {
  return request.headers['user-agent'] ?? '';
}

function readAuthorization(request: FastifyRequest): { scheme: string; value: string } | null {
  const match = /^(\S+)\s+(\S+)\s*$/.exec(request.headers.authorization ?? '');
  return match?.[1] === undefined || match[2] === undefined
    ? null
    : { scheme: match[1].toLowerCase(), value: match[2] };
}
