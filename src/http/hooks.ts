import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import cors from '@fastify/cors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { Readiness } from '../database/readiness.ts';
import type { Log } from '../log.ts';
import { READY_PATH } from './routes/health.ts';

/** What happens to every request and response, whatever the route. */

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether a bug or a broken dependency was logged as an ERROR for it. */
    hasFailed: boolean;
    /** The body as it was sent; null if there is none. */
    rawBody: Buffer | null;
  }
}

interface SentResponse {
  method: string;
  /** As it was registered, without the values in the path; `none` if no route matched. */
  route: string;
  status: number;
  tookMs: number;
  /** Whether a bug or the database made it fail; a mint that fails is a refusal. */
  hasFailed: boolean;
}

/** Any web page may call this API and read its responses, errors included (spec: browser wallets). */
export const CORS_HEADERS = { 'access-control-allow-origin': '*' };

const EXPOSED_HEADERS = 'X-Cashu, Retry-After, X-Request-Id';

const PREFLIGHT_OPTIONS = {
  origin: '*',
  methods: ['GET', 'HEAD', 'POST', 'PATCH', 'OPTIONS'],
  allowedHeaders: ['Authorization', 'Content-Type', 'X-Cashu'],
  maxAge: 86_400,
  strictPreflight: false,
};

const REQUEST_ID_HEADER = 'x-request-id';

/** UUIDs, hex, numbers: nothing that could be mistaken for more than an id in a log. */
const PLAIN_ID = /^[\w.:-]{1,64}$/;

/** Address ranges of an operator's own reverse proxy. No client on the internet has such an address. */
const PRIVATE_RANGES: ReadonlySet<string> = new Set([
  'loopback',
  'private',
  'uniqueLocal',
  'linkLocal',
]);

export interface HookParts {
  log: Log;
  readiness: Pick<Readiness, 'isStopping'>;
  /** Called with each response that was sent; null: nothing counts them. */
  onResponse: ((response: SentResponse) => void) | null;
}

export function addCommonHooks(app: FastifyInstance, parts: HookParts): void {
  const { log, readiness, onResponse } = parts;
  let hasWarned = false;
  app.decorateRequest('hasFailed', false);
  app.addHook('onRequest', (request, reply, done) => {
    setCommonHeaders(request, reply);
    if (!hasWarned) {
      hasWarned = warnOfUntrustedProxy(request, log);
    }
    done();
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (readiness.isStopping) {
      // The client opens another connection, which a load balancer routes to another process.
      reply.header('connection', 'close');
    }
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const response = {
      method: request.method,
      // The path itself may contain a verify token.
      route: request.routeOptions.url ?? 'none',
      status: reply.statusCode,
      tookMs: reply.elapsedTime,
    };
    // Users report failed requests by their id; load balancers ask for readiness all the time.
    const isNotable = response.status >= 500 && response.route !== READY_PATH;
    request.log[isNotable ? 'info' : 'debug'](
      { ...response, tookMs: Math.round(response.tookMs) },
      'answered',
    );
    onResponse?.({ ...response, hasFailed: request.hasFailed });
    done();
  });
  keepBodyBytes(app);
}

/** Sets the headers that every response has, also one to a request that no hook has seen. */
export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(CORS_HEADERS);
  reply.header('access-control-expose-headers', EXPOSED_HEADERS);
  reply.header(REQUEST_ID_HEADER, request.id);
}

export async function answerPreflights(app: FastifyInstance): Promise<void> {
  // In its own scope, or the plugin would set the headers of every response once more.
  await app.register(async (scope) => {
    await scope.register(cors, PREFLIGHT_OPTIONS);
  });
}

/** Reads every body as JSON, whatever its content type, and keeps its bytes: a NIP-98 event may sign their hash. */
function keepBodyBytes(app: FastifyInstance): void {
  app.decorateRequest('rawBody', null);
  // Keys that would change an object's prototype are removed.
  const parseJson = app.getDefaultJsonParser('remove', 'remove');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
    request.rawBody = Buffer.from(body);
    void parseJson(request, request.rawBody.toString('utf8'), done);
  });
}

/**
 * Returns the function that names requests, for Fastify's `genReqId`: the id that a proxy gave if it is short and
 * plain, so that its log and ours name the request alike, otherwise a random one.
 */
export function requestIds(isBehindProxy: boolean): (request: IncomingMessage) => string {
  return ({ headers }) => {
    const id = headers[REQUEST_ID_HEADER];
    return isBehindProxy && typeof id === 'string' && PLAIN_ID.test(id) ? id : randomUUID();
  };
}

/**
 * Warns of a reverse proxy that `TRUST_PROXY` does not name: all of its clients count as one address and share its rate
 * limits.
 *
 * @returns whether it warned
 */
function warnOfUntrustedProxy({ headers, ip, ips = [ip] }: FastifyRequest, log: Log): boolean {
  // `ips` has more than one entry if the address that the connection came from is trusted.
  if (!headers['x-forwarded-for'] || ips.length > 1 || !ipaddr.isValid(ip)) {
    return false;
  }
  // A socket for every address reports IPv4 as IPv6 (`::ffff:127.0.0.1`).
  const address = ipaddr.process(ip);
  const proxy = address.toString();
  const isPrivate = PRIVATE_RANGES.has(address.range());
  if (isPrivate) {
    log.warn(
      { proxy },
      `requests come through a proxy at ${proxy} that is not trusted: all of its clients count as one` +
        ` address, and are refused together; if it is your reverse proxy, set TRUST_PROXY=${proxy}`,
    );
  }
  return isPrivate;
}
