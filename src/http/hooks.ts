import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import cors from '@fastify/cors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { Readiness } from '../database/readiness.ts';
import type { Logger } from '../log.ts';
import { READY_PATH } from './routes/health.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether it failed because of a bug or the database, not because of a client or a mint. */
    hasInternalError: boolean;
    /** The bytes of the body; null without a body. */
    rawBody: Buffer | null;
  }
}

/** Browser wallets on any origin may read all responses, including errors. */
export const CORS_HEADERS = { 'access-control-allow-origin': '*' };

const CORS_PREFLIGHT_OPTIONS = {
  origin: '*',
  methods: ['GET', 'HEAD', 'POST', 'PATCH', 'OPTIONS'],
  allowedHeaders: ['Authorization', 'Content-Type', 'X-Cashu'],
  maxAge: 86_400,
  strictPreflight: false,
};

const REQUEST_ID_HEADER = 'x-request-id';

/** UUIDs, hex and numbers, which cannot forge log text. */
const SAFE_REQUEST_ID = /^[\w.:-]{1,64}$/;

/** Address ranges that only the operator's own proxy can have, never a client on the internet. */
const PRIVATE_RANGES = new Set<string>(['loopback', 'private', 'uniqueLocal', 'linkLocal']);

export interface HookDeps {
  log: Logger;
  readiness: Pick<Readiness, 'isStopping'>;
  /** Called after each response. `route` is the route pattern, without the values in the path. */
  onResponse: (response: {
    method: string;
    route: string;
    status: number;
    durationMs: number;
    hasInternalError: boolean;
  }) => void;
}

export function addCommonHooks(
  app: FastifyInstance,
  { log, readiness, onResponse }: HookDeps,
): void {
  let hasWarned = false;
  app.decorateRequest('hasInternalError', false);
  app.decorateRequest('pubkey', '');
  app.decorateRequest('signedPayloadHash', null);
  app.addHook('onRequest', (request, reply, done) => {
    setCommonHeaders(request, reply);
    const proxy = hasWarned ? null : findUntrustedProxy(request);
    if (proxy !== null) {
      hasWarned = true;
      log.warn(
        { event: 'untrusted_proxy', proxy },
        `requests arrive through the untrusted proxy ${proxy}, so its clients share the rate limits of one` +
          ` address; if it is your reverse proxy, set TRUST_PROXY=${proxy}`,
      );
    }
    done();
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (readiness.isStopping) {
      // Makes the client reconnect, so that the load balancer can choose another process.
      reply.header('connection', 'close');
    }
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const response = {
      method: request.method,
      // Not the path, which may contain a verify token.
      route: request.routeOptions.url ?? 'none',
      status: reply.statusCode,
      durationMs: reply.elapsedTime,
    };
    // Users report failed requests by their id. Readiness probes would flood the log.
    const level = response.status >= 500 && response.route !== READY_PATH ? 'info' : 'debug';
    request.log[level](
      { event: 'request_completed', ...response, durationMs: Math.round(response.durationMs) },
      'request completed',
    );
    onResponse({ ...response, hasInternalError: request.hasInternalError });
    done();
  });
  // Parses every body as JSON, whatever its content type, and stores its bytes for the NIP-98 payload hash.
  app.decorateRequest('rawBody', null);
  // Removes `__proto__` and `constructor` keys.
  const parseJson = app.getDefaultJsonParser('remove', 'remove');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
    request.rawBody = Buffer.from(body);
    void parseJson(request, request.rawBody.toString('utf8'), done);
  });
}

/** Sets the headers of every response, including errors that Fastify sends before any hook runs. */
export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(CORS_HEADERS);
  reply.header('access-control-expose-headers', 'X-Cashu, Retry-After, X-Request-Id');
  reply.header(REQUEST_ID_HEADER, request.id);
}

export async function registerCorsPreflight(app: FastifyInstance): Promise<void> {
  // In its own scope: otherwise the plugin would also add headers to all other responses.
  await app.register(async (scope) => {
    await scope.register(cors, CORS_PREFLIGHT_OPTIONS);
  });
}

/** Returns a trusted proxy's request id if it is valid, otherwise a UUID. */
export function chooseRequestId({ headers }: IncomingMessage, hasTrustedProxy: boolean): string {
  const id = headers[REQUEST_ID_HEADER];
  const isUsable = hasTrustedProxy && typeof id === 'string' && SAFE_REQUEST_ID.test(id);
  return isUsable ? id : randomUUID();
}

/** Returns the address of a reverse proxy that is missing in `TRUST_PROXY`; null if there is none. */
function findUntrustedProxy({ headers, ip, ips = [ip] }: FastifyRequest): string | null {
  // `ips` has several entries only if the connection's address is trusted.
  if (!headers['x-forwarded-for'] || ips.length > 1 || !ipaddr.isValid(ip)) {
    return null;
  }
  // Dual-stack sockets report IPv4 addresses as `::ffff:127.0.0.1`.
  const address = ipaddr.process(ip);
  return PRIVATE_RANGES.has(address.range()) ? address.toString() : null;
}
