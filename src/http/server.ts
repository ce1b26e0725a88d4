import type { InboundLimits } from './rate-limits.ts';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import websocket from '@fastify/websocket';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { validatorCompiler } from 'fastify-type-provider-zod';
import { Refusal } from '../errors.ts';
import type { Log } from '../log.ts';
import {
  dropBrokenSocket,
  isQuoteSocketUpgrade,
  SOCKET_SERVER_OPTIONS,
} from './api/quote-sockets.ts';
import { decorateForAuthentication } from './authenticate.ts';
import {
  type Dialect,
  dialectOf,
  registerErrorHandlers,
  renderError,
  sendError,
} from './errors.ts';
import {
  addCommonHooks,
  answerPreflights,
  CORS_HEADERS,
  type HookParts,
  requestIds,
} from './hooks.ts';
import { RateLimits } from './rate-limits.ts';

/**
 * Connections beside the quote sockets: far more than a process can serve, and fewer than the files that it may open. An
 * idle one takes about 10 KB.
 */
const MAX_HTTP_CONNECTIONS = 10_000;

/** Given at creation: set later, Fastify would have loaded its own compilers, which take 4 MB. */
const COMPILERS = {
  // Fastify's types only allow compilers of JSON schemas.
  buildValidator: (() => validatorCompiler) as never,
  // The schemas of responses are for the type checker and the API's description; they are not run (ADR 18).
  buildSerializer: () => () => JSON.stringify,
};

export interface ServerParts extends HookParts {
  log: Log;
  monotonicMs: () => number;
  trustProxy: readonly string[];
  limits: InboundLimits;
}

/** Creates the HTTP server without routes, and the rate limits that routes with authentication need. */
export async function createServer(
  parts: ServerParts,
): Promise<{ app: FastifyInstance; rateLimits: RateLimits }> {
  const logger: FastifyBaseLogger = parts.log;
  const app: FastifyInstance = Fastify({
    loggerInstance: logger,
    // Fastify would log URLs, which contain secrets; `hooks.ts` logs routes.
    logController: new LogController({ disableRequestLogging: true }),
    // Without a trusted proxy, a request's address is its connection's.
    trustProxy: parts.trustProxy.length > 0 && [...parts.trustProxy],
    genReqId: requestIds(parts.trustProxy.length > 0),
    // No endpoint needs more than a mint's URL.
    bodyLimit: 32 * 1024,
    requestTimeout: 30_000,
    // Longer than any response takes: the client of a connection without traffic for that long does not read.
    connectionTimeout: 120_000,
    // Longer than reverse proxies and load balancers usually keep an idle connection, so that they close it first.
    keepAliveTimeout: 72_000,
    // Requests that arrive while the server closes are answered as usual.
    return503OnClosing: false,
    http: {
      // With the request line. Node's default of 16 KiB is too small for a long token in `X-Cashu`.
      maxHeaderSize: 64 * 1024,
      // From the beginning of a connection, or of a later request.
      headersTimeout: 10_000,
      // Node's default of 30 s would double both timeouts.
      connectionsCheckingInterval: 5_000,
      // Whatever NODE_OPTIONS says: a lenient parser allows request smuggling.
      insecureHTTPParser: false,
      requireHostHeader: false,
      // An upgraded connection that no handler accepts would be out of reach of every timeout.
      shouldUpgradeCallback: (request) =>
        app.server.listening && isQuoteSocketUpgrade(request) && !isBeingAnswered(request.socket),
    },
    routerOptions: {
      ignoreTrailingSlash: true,
      ignoreDuplicateSlashes: true,
      // Longer than a header may be, so that the routes themselves report a long name or token.
      maxParamLength: 128 * 1024,
    },
    schemaController: { compilersFactory: COMPILERS },
    // A target may contain its origin (RFC 9112 section 3.2.2).
    rewriteUrl: ({ url = '' }) =>
      url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '') || '/',
    frameworkErrors: sendError,
    clientErrorHandler: answerClientError,
  });
  registerErrorHandlers(app);
  app.server.on('request', (request, response) => responses.set(request.socket, response));
  addCommonHooks(app, parts);
  decorateForAuthentication(app);
  limitConnections(app, parts.limits, parts.log);

  const rateLimits = new RateLimits(parts.limits, parts.monotonicMs);
  await app.register(websocket, {
    options: SOCKET_SERVER_OPTIONS,
    errorHandler: dropBrokenSocket,
  });
  app.websocketServer.on('wsClientError', answerBadHandshake);
  // An unknown `Expect` header is ignored; Node would answer 417 without a body.
  app.server.on('checkExpectation', (request, response) => {
    app.server.emit('request', request, response);
  });
  // After the WebSocket plugin's hook: a rejected handshake ends its connection.
  app.addHook('onRequest', rateLimits.limitAddress);
  await answerPreflights(app);

  return { app, rateLimits };
}

/** Connections beyond the limit are closed at once, so that file descriptors are left for requests to mints. */
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

/** A rejected connection stays open for this time, so that the client can read the response. */
const LINGER_MS = 1_000;

const responses = new WeakMap<Socket, ServerResponse>();
const rejected = new WeakSet<Socket>();

/** Whether a response is still being written: nothing else may use the connection. */
function isBeingAnswered(socket: Socket): boolean {
  return responses.get(socket)?.writableFinished === false;
}

/**
 * Answers requests that Node's HTTP parser rejects before Fastify sees them. A pipelined request is answered after the
 * requests before it, and no request is answered twice.
 */
function answerClientError(error: { code: string }, socket: Socket): void {
  if (rejected.has(socket)) {
    return;
  }
  const response = responses.get(socket);
  const isBodyInvalid = response?.req.complete === false;
  if (!socket.writable || (isBodyInvalid && response.writableEnded)) {
    socket.destroy();
    return;
  }
  rejected.add(socket);
  const answer = () => reject(socket, 'any', CLIENT_ERRORS[error.code] ?? MALFORMED);
  if (!isBodyInvalid && response?.writableFinished === false) {
    response.once('finish', answer);
  } else {
    answer();
  }
}

function answerBadHandshake(error: Error, socket: Socket, request: IncomingMessage): void {
  const dialect = dialectOf(request.url ?? '/');
  reject(socket, dialect, { ...MALFORMED, message: `${error.message}.` });
}

function reject(socket: Socket, dialect: Dialect, { statusLine, message }: typeof MALFORMED): void {
  const { body } = renderError(new Refusal('invalid', message), dialect);
  const text = JSON.stringify(body);
  const headers = {
    ...CORS_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${statusLine}\r\n${lines.join('')}\r\n${text}`);
  // Closing at once, while more of the request arrives, would reset the connection and lose the response.
  const deadline = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(deadline));
}

const MALFORMED = { statusLine: '400 Bad Request', message: 'The request is not valid HTTP.' };

const CLIENT_ERRORS: Record<string, typeof MALFORMED> = {
  HPE_HEADER_OVERFLOW: {
    statusLine: '431 Request Header Fields Too Large',
    message: 'The request’s headers are too large.',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    statusLine: '408 Request Timeout',
    message: 'The request took too long to arrive.',
  },
};
