import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import websocket from '@fastify/websocket';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { validatorCompiler } from 'fastify-type-provider-zod';
import { RequestError } from '../errors.ts';
import type { Logger } from '../log.ts';
import {
  handleSocketError,
  isQuoteSocketUpgrade,
  SOCKET_SERVER_OPTIONS,
} from './api/quote-socket-server.ts';
import { type ClientLimits, ClientRateLimiter } from './client-rate-limiter.ts';
import {
  type ErrorFormat,
  getErrorFormat,
  registerErrorHandlers,
  renderError,
  sendError,
} from './errors.ts';
import {
  addCommonHooks,
  CORS_HEADERS,
  chooseRequestId,
  type HookDeps,
  registerCorsPreflight,
} from './hooks.ts';

/** In addition to quote sockets: more than a process can serve, fewer than its file descriptors; about 10 KB each. */
const MAX_HTTP_CONNECTIONS = 10_000;

export interface ServerDeps extends HookDeps {
  log: Logger;
  monotonicMs: () => number;
  trustProxy: readonly string[];
  limits: ClientLimits;
}

/** Creates the HTTP server without routes. Authenticated routes add the rate limiter's `limitByPubkey` hook. */
export async function createServer(deps: ServerDeps) {
  const { log, limits, trustProxy } = deps;
  const hasTrustedProxy = trustProxy.length > 0;
  const app: FastifyInstance = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    // Fastify would log URLs, which contain secrets. `hooks.ts` logs routes.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: hasTrustedProxy && [...trustProxy],
    genReqId: (request) => chooseRequestId(request, hasTrustedProxy),
    // The longest valid body contains a mint URL.
    bodyLimit: 32 * 1024,
    requestTimeout: 30_000,
    // Closes connections whose client stopped reading; longer than any response takes.
    connectionTimeout: 120_000,
    // Longer than the idle timeouts of common proxies, so that the proxy closes first.
    keepAliveTimeout: 72_000,
    // Serves requests that arrive during shutdown.
    return503OnClosing: false,
    http: {
      // Includes the request line. Node's 16 KiB are too small for a long token in `X-Cashu`.
      maxHeaderSize: 64 * 1024,
      headersTimeout: 10_000,
      // Node's default of 30 s would double both timeouts.
      connectionsCheckingInterval: 5_000,
      // Overrides NODE_OPTIONS: a lenient parser allows request smuggling.
      insecureHTTPParser: false,
      requireHostHeader: false,
      // Otherwise a connection that Node upgrades and no handler accepts would escape all timeouts.
      shouldUpgradeCallback: (request) =>
        app.server.listening &&
        isQuoteSocketUpgrade(request) &&
        !hasPendingResponse(request.socket),
    },
    routerOptions: {
      ignoreTrailingSlash: true,
      ignoreDuplicateSlashes: true,
      // Longer than the longest URL, so that routes report long names and tokens themselves.
      maxParamLength: 128 * 1024,
    },
    schemaController: {
      compilersFactory: {
        // Fastify's types only allow JSON Schema compilers.
        buildValidator: (() => validatorCompiler) as never,
        // Response schemas serve types and documentation only (ADR 18).
        buildSerializer: () => () => JSON.stringify,
      },
    },
    // Absolute-form targets contain the origin (RFC 9112 section 3.2.2).
    rewriteUrl: ({ url = '' }) =>
      url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '') || '/',
    frameworkErrors: sendError,
    clientErrorHandler: handleClientError,
  });
  registerErrorHandlers(app);
  app.server.on('request', (request, response) => latestResponses.set(request.socket, response));
  addCommonHooks(app, deps);
  limitConnections(app, limits.maxSockets, log);

  const rateLimiter = new ClientRateLimiter(limits, deps.monotonicMs);
  await app.register(websocket, {
    options: SOCKET_SERVER_OPTIONS,
    errorHandler: handleSocketError,
  });
  app.websocketServer.on('wsClientError', handleHandshakeError);
  // Ignores unknown `Expect` headers; Node would respond 417 without a body.
  app.server.on('checkExpectation', (request, response) => {
    app.server.emit('request', request, response);
  });
  // After the WebSocket plugin's hook, so that rejected handshakes are recognised.
  app.addHook('onRequest', rateLimiter.limitByAddress);
  await registerCorsPreflight(app);

  return { app, rateLimiter };
}

/** Reserves file descriptors for connections to mints by closing connections beyond the limit. */
function limitConnections({ server }: FastifyInstance, maxSockets: number, log: Logger): void {
  if (maxSockets === 0) {
    return;
  }
  server.maxConnections = maxSockets + MAX_HTTP_CONNECTIONS;
  server.once('drop', () =>
    log.warn(
      { event: 'connection_limit_reached', connections: server.maxConnections },
      'connection limit reached (LIMIT_SOCKETS); closing further connections',
    ),
  );
}

/** Listens on a host and port (0: any free port). Returns the URL. */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  // `app.listen` would log the addresses of all interfaces.
  await app.ready();
  app.server.listen({ host, port });
  await once(app.server, 'listening');
  const { address, family, port: chosenPort } = app.server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${chosenPort}`;
}

/** Gives the client time to read the response of a rejected connection. */
const REJECTED_CONNECTION_LINGER_MS = 1_000;

const latestResponses = new WeakMap<Socket, ServerResponse>();
const rejectedSockets = new WeakSet<Socket>();

function hasPendingResponse(socket: Socket): boolean {
  return latestResponses.get(socket)?.writableFinished === false;
}

/** Responds to requests that Node's HTTP parser rejects: after pending responses, and once per connection. */
function handleClientError(error: { code: string }, socket: Socket): void {
  if (rejectedSockets.has(socket)) {
    return;
  }
  const response = latestResponses.get(socket);
  const failedWhileReadingBody = response?.req.complete === false;
  if (!socket.writable || (failedWhileReadingBody && response.writableEnded)) {
    socket.destroy();
    return;
  }
  rejectedSockets.add(socket);
  const rejection = CLIENT_ERROR_RESPONSES[error.code] ?? MALFORMED_REQUEST_RESPONSE;
  const sendRejection = () => sendErrorAndClose(socket, 'any', rejection);
  if (!failedWhileReadingBody && response?.writableFinished === false) {
    response.once('finish', sendRejection);
  } else {
    sendRejection();
  }
}

function handleHandshakeError(error: Error, socket: Socket, request: IncomingMessage): void {
  const format = getErrorFormat(request.url ?? '/');
  const rejection = { ...MALFORMED_REQUEST_RESPONSE, message: `${error.message}.` };
  sendErrorAndClose(socket, format, rejection);
}

function sendErrorAndClose(
  socket: Socket,
  format: ErrorFormat,
  { statusLine, message }: typeof MALFORMED_REQUEST_RESPONSE,
): void {
  const { body } = renderError(new RequestError('invalid', message), format);
  const text = JSON.stringify(body);
  const headers = {
    ...CORS_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${statusLine}\r\n${lines.join('')}\r\n${text}`);
  // Destroying the socket while data still arrives would reset the connection and lose the response.
  const deadline = setTimeout(() => socket.destroy(), REJECTED_CONNECTION_LINGER_MS).unref();
  socket.once('close', () => clearTimeout(deadline));
}

const MALFORMED_REQUEST_RESPONSE = {
  statusLine: '400 Bad Request',
  message: 'The request is not valid HTTP.',
};

const CLIENT_ERROR_RESPONSES: Record<string, typeof MALFORMED_REQUEST_RESPONSE> = {
  HPE_HEADER_OVERFLOW: {
    statusLine: '431 Request Header Fields Too Large',
    message: 'The request’s headers are too large.',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    statusLine: '408 Request Timeout',
    message: 'The request took too long to arrive.',
  },
};
