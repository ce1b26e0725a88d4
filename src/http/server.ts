import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import websocket from '@fastify/websocket';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { validatorCompiler } from 'fastify-type-provider-zod';
import type { Answered } from '../domain/answered.ts';
import type { InboundLimits } from '../domain/limits.ts';
import type { Log } from '../log.ts';
import type { Readiness } from '../usecases/readiness.ts';
import {
  dropBrokenSocket,
  isQuoteSocketUpgrade,
  SOCKET_SERVER_OPTIONS,
} from './api/quote-sockets.ts';
import { decorateForAuthentication } from './authenticate.ts';
import { keepBodyBytes } from './body.ts';
import {
  answerBadHandshake,
  answerClientError,
  isBeingAnswered,
  rememberAnswers,
} from './client-errors.ts';
import {
  HEADERS_TIMEOUT_MS,
  IDLE_CONNECTION_MS,
  KEEP_ALIVE_MS,
  MAX_BODY_BYTES,
  MAX_HEADER_BYTES,
  MAX_HTTP_CONNECTIONS,
  MAX_PATH_PARAMETER_LENGTH,
  REQUEST_TIMEOUT_MS,
  TIMEOUT_CHECK_MS,
} from './limits.ts';
import { addCommonHeaders, answerPreflights } from './open-to-browsers.ts';
import { hintAtUntrustedProxy } from './proxy-hint.ts';
import { RateLimits } from './rate-limits.ts';
import { registerErrorAnswers, sendError } from './refusals.ts';
import { requestIdsOf } from './request-ids.ts';
import { logResponses } from './request-log.ts';

/**
 * What Fastify checks requests and writes answers with. Given when it is made, since it would load compilers
 * of its own before it could be told later, 4 MB of them.
 */
const COMPILERS = {
  // Its types know the compilers of JSON schemas alone.
  buildValidator: (() => validatorCompiler) as never,
  // The schemas of answers are for the compiler and the API's description: no answer waits for a check.
  buildSerializer: () => () => JSON.stringify,
};

/**
 * The HTTP server before it has any route: its limits, its errors in every dialect, what browsers may
 * do, and WebSockets.
 *
 * @returns the limits too, for what is counted once it is known who asks
 */
export async function createServer(parts: {
  log: Log;
  monotonicMs: () => number;
  trustProxy: readonly string[];
  limits: InboundLimits;
  onAnswered: ((answer: Answered) => void) | null;
  readiness: Pick<Readiness, 'isStopping'>;
}): Promise<{ app: FastifyInstance; rateLimits: RateLimits }> {
  const logger: FastifyBaseLogger = parts.log;
  const app: FastifyInstance = Fastify({
    loggerInstance: logger,
    // Fastify would log URLs, which contain secrets; `request-log.ts` logs routes.
    logController: new LogController({ disableRequestLogging: true }),
    // With nobody to trust, a request's address is its connection's, and nothing is followed for it.
    trustProxy: parts.trustProxy.length > 0 && [...parts.trustProxy],
    genReqId: requestIdsOf(parts.trustProxy),
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionTimeout: IDLE_CONNECTION_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Requests that arrive while the server closes are answered as usual.
    return503OnClosing: false,
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      // Whatever NODE_OPTIONS say: what two readers take for different requests is none.
      insecureHTTPParser: false,
      requireHostHeader: false,
      // A connection that is handed over and that nobody takes would be out of reach of every timeout.
      shouldUpgradeCallback: (request) =>
        app.server.listening && isQuoteSocketUpgrade(request) && !isBeingAnswered(request.socket),
    },
    routerOptions: {
      ignoreTrailingSlash: true,
      ignoreDuplicateSlashes: true,
      maxParamLength: MAX_PATH_PARAMETER_LENGTH,
    },
    schemaController: { compilersFactory: COMPILERS },
    // A target may be given with its origin (RFC 9112 section 3.2.2); everything here reads paths.
    rewriteUrl: ({ url = '' }) => (url.startsWith('/') ? url : pathOf(url)),
    frameworkErrors: sendError,
    clientErrorHandler: answerClientError,
  });
  registerErrorAnswers(app);
  rememberAnswers(app.server);
  addCommonHeaders(app);
  logResponses(app, parts.onAnswered);
  keepBodyBytes(app);
  closeConnectionsOnStop(app, parts.readiness);
  decorateForAuthentication(app);
  hintAtUntrustedProxy(app, parts.log);
  limitConnections(app, parts.limits, parts.log);

  const rateLimits = new RateLimits(parts.limits, parts.monotonicMs);
  await app.register(websocket, {
    options: SOCKET_SERVER_OPTIONS,
    errorHandler: dropBrokenSocket,
  });
  app.websocketServer.on('wsClientError', answerBadHandshake);
  // An expectation that is not known is passed over, rather than refused without a body.
  app.server.on('checkExpectation', (request, response) => {
    app.server.emit('request', request, response);
  });
  // After that: a refused handshake ends its connection.
  app.addHook('onRequest', rateLimits.limitAddress);
  await answerPreflights(app);

  return { app, rateLimits };
}

/**
 * While the service stops, each response ends its connection: the client opens another one, which a load balancer routes
 * to another process.
 */
function closeConnectionsOnStop(
  app: FastifyInstance,
  readiness: Pick<Readiness, 'isStopping'>,
): void {
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (readiness.isStopping) {
      reply.header('connection', 'close');
    }
    done();
  });
}

/** Of a target that is given with its origin. */
function pathOf(url: string): string {
  return url.replace(/^https?:\/\/[^/?#]*/i, '') || '/';
}

/** What comes above it is closed at once: the rest are to be answered, and mints to be reached. */
function limitConnections(app: FastifyInstance, { sockets }: InboundLimits, log: Log): void {
  if (sockets === 0) {
    return;
  }
  const { server } = app;
  server.maxConnections = sockets + MAX_HTTP_CONNECTIONS;
  server.once('drop', () =>
    log.warn(
      { connections: server.maxConnections },
      'there are as many connections as this process takes: more are closed at once (LIMIT_SOCKETS)',
    ),
  );
}

/** Listens. @returns the address, with the port that the system chose where `port` is 0 */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  // Fastify's own way would log an address of every interface, where one line tells what is public.
  await app.ready();
  app.server.listen({ host, port });
  await once(app.server, 'listening');
  const { address, family, port: chosenPort } = app.server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${chosenPort}`;
}
