import type { FastifyInstance } from 'fastify';
import type { EventVerifier } from '../nostr/events.ts';
import type { QuoteSubscribers } from '../quotes/quote-subscribers.ts';
import { QuoteSockets, SOCKET_AUTH_DEADLINE_MS, SOCKET_HEARTBEAT_MS } from './api/quote-sockets.ts';
import { type AppParts, createApp } from './app.ts';
import { Authenticator } from './authenticate.ts';
import { JwtIssuer } from './jwt.ts';
import { PublicHost } from './public-host.ts';

export interface CreateHttpOptions
  extends Omit<AppParts, 'publicHost' | 'authenticator' | 'jwt' | 'quoteSockets'> {
  publicOrigins: readonly string[];
  /** Signs JSON Web Tokens. */
  jwtSecret: string;
  /** Verifies tokens that were signed before the secret was replaced; null if there is none. */
  jwtSecretPrevious: string | null;
  verifyEvent: EventVerifier;
  subscribers: QuoteSubscribers;
  socketAuthDeadlineMs?: number | undefined;
  socketHeartbeatMs?: number | undefined;
}

export interface Http {
  app: FastifyInstance;
  publicHost: PublicHost;
  quoteSockets: QuoteSockets;
}

/** Constructs the HTTP server with its routes and the quote WebSocket. It does not listen yet. */
export async function createHttp(options: CreateHttpOptions): Promise<Http> {
  const { verifyEvent, subscribers, limits, clock, monotonicMs, log } = options;
  const publicHost = new PublicHost(options.publicOrigins);
  const jwt = new JwtIssuer(options.jwtSecret, options.jwtSecretPrevious);
  const authenticator = new Authenticator({ verifyEvent, jwt, publicHost, clock });
  const quoteSockets = new QuoteSockets({
    authenticator,
    subscribers,
    publicHost,
    limits,
    authDeadlineMs: options.socketAuthDeadlineMs ?? SOCKET_AUTH_DEADLINE_MS,
    heartbeatMs: options.socketHeartbeatMs ?? SOCKET_HEARTBEAT_MS,
    monotonicMs,
    log,
  });
  const app = await createApp({ ...options, publicHost, jwt, authenticator, quoteSockets });
  return { app, publicHost, quoteSockets };
}
