import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import { RequestError } from '../errors.ts';
import { tryParseJson } from '../untrusted-text.ts';
import type { HttpContext } from './context.ts';
import { CORS_HEADERS } from './errors.ts';
import { READY_PATH } from './routes/health.ts';
import { limitUnreadResponses } from './unread-responses.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether the request failed because of a bug or the database, and not because of a client or a mint. */
    hasInternalError: boolean;
    /** The bytes of the body; null if there is none. */
    rawBody: Buffer | null;
  }
}

export interface RequestObserver {
  /** Called once, with the address of the first reverse proxy that `TRUST_PROXY` does not contain. */
  onUntrustedProxy: (proxy: string) => void;
  /** `route` is the route pattern, without the values in the path. */
  onResponse: (response: {
    method: string;
    route: string;
    status: number;
    durationMs: number;
    hasInternalError: boolean;
  }) => void;
}

const REQUEST_ID_HEADER = 'x-request-id';

/** Adds what applies to all requests: headers, logging, metrics, and the parser of bodies. */
export function addCommonHooks(
  app: FastifyInstance,
  { log, readiness }: HttpContext,
  { onUntrustedProxy, onResponse }: RequestObserver,
): void {
  let hasWarnedAboutProxy = false;
  app.decorateRequest('hasInternalError', false);
  app.decorateRequest('pubkey', '');
  app.decorateRequest('signedPayloadHash', null);
  app.decorateRequest('rawBody', null);
  app.decorateRequest('rejection', null);
  app.addHook('onRequest', (request, reply, done) => {
    setCommonHeaders(request, reply);
    const proxy = hasWarnedAboutProxy ? null : findUntrustedProxy(request);
    if (proxy !== null) {
      hasWarnedAboutProxy = true;
      onUntrustedProxy(proxy);
      log.warn(
        { event: 'untrusted_proxy', proxy },
        `requests arrive through the untrusted proxy ${proxy}, so its clients share the rate limits of one` +
          ` address; if it is your reverse proxy, set TRUST_PROXY=${proxy}`,
      );
    }
    done();
  });
  limitUnreadResponses(app);
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (readiness.phase === 'stopping') {
      // The client then reconnects, and the load balancer can choose another process.
      reply.header('connection', 'close');
    }
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const response = {
      method: request.method,
      // The path is not logged, because it may contain a verify token.
      route: request.routeOptions.url ?? 'none',
      status: reply.statusCode,
      durationMs: reply.elapsedTime,
    };
    // Failed requests are always logged, because users report their ids. Failed readiness probes would flood the log.
    const isAlwaysLogged = response.status >= 500 && response.route !== READY_PATH;
    const level = isAlwaysLogged ? 'info' : 'debug';
    request.log[level](
      { event: 'request_completed', ...response, durationMs: Math.round(response.durationMs) },
      'request completed',
    );
    onResponse({ ...response, hasInternalError: request.hasInternalError });
    done();
  });
  // Parses every body as JSON, whatever its content type, and stores the bytes for the NIP-98 payload hash.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
    request.rawBody = Buffer.from(body);
    const json = tryParseJson(new TextDecoder().decode(request.rawBody));
    const problem =
      body.length === 0 ? 'The body is empty; JSON is expected.' : 'The body is not valid JSON.';
    done(json === undefined ? new RequestError('invalid', problem) : null, json);
  });
}

export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(CORS_HEADERS);
  reply.header('access-control-expose-headers', 'X-Cashu, Retry-After, X-Request-Id');
  reply.header(REQUEST_ID_HEADER, request.id);
}

/** Returns the request id that a trusted proxy has sent, if it is valid; otherwise a new UUID. */
export function chooseRequestId({ headers }: IncomingMessage, hasTrustedProxy: boolean): string {
  const id = headers[REQUEST_ID_HEADER];
  // Others could forge text in the log.
  const isSafe = typeof id === 'string' && /^[\w.:-]{1,64}$/.test(id);
  return hasTrustedProxy && isSafe ? id : randomUUID();
}

/** Returns the address of the request's reverse proxy if `TRUST_PROXY` does not contain it; otherwise null. */
function findUntrustedProxy({ headers, ip, ips = [ip] }: FastifyRequest): string | null {
  // If the proxy is trusted, `ips` also contains the addresses from the header.
  if (!headers['x-forwarded-for'] || ips.length > 1 || !ipaddr.isValid(ip)) {
    return null;
  }
  // Dual-stack sockets report IPv4 addresses as `::ffff:127.0.0.1`.
  const address = ipaddr.process(ip);
  // No client on the internet has these addresses, so they belong to the operator's own proxy.
  const privateRanges = ['loopback', 'private', 'uniqueLocal', 'linkLocal'];
  return privateRanges.includes(address.range()) ? address.toString() : null;
}
