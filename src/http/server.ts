import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setImmediate as nextEventLoopTurn } from 'node:timers/promises';
import cors from '@fastify/cors';
import websocket from '@fastify/websocket';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { validatorCompiler } from 'fastify-type-provider-zod';
import { OperatorError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { escapeZapRequestAmpersands } from '../zaps/zap-request.ts';
import { handleSocketError, isQuoteSocketUpgrade } from './api/quote-socket-server.ts';
import { createRateLimitHooks } from './client-rate-limiter.ts';
import {
  addCommonHooks,
  chooseRequestId,
  type RequestObserver,
  setCommonHeaders,
} from './common-hooks.ts';
import type { HttpContext } from './context.ts';
import { type ErrorPageSender, registerErrorHandlers, sendError } from './errors.ts';
import { CLIENT_DEADLINE_MS, SOCKET_SERVER_OPTIONS } from './limits.ts';
import {
  handleClientError,
  handleHandshakeError,
  hasPendingResponse,
  recordLatestResponses,
} from './rejected-connections.ts';

/** Creates the HTTP server without routes. Authenticated routes must add its `limitByPubkey` hook. */
export async function createServer(
  context: HttpContext,
  options: {
    trustProxy: readonly string[];
    sendErrorPage: ErrorPageSender | null;
    observer: RequestObserver;
  },
) {
  const { log, limits, monotonicMs } = context;
  const hasTrustedProxy = options.trustProxy.length > 0;
  const app: FastifyInstance = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    // Fastify would log URLs, which contain secrets. An `onResponse` hook logs the route instead.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: hasTrustedProxy && [...options.trustProxy],
    genReqId: (request) => chooseRequestId(request, hasTrustedProxy),
    // The longest valid body of most routes contains a mint URL.
    bodyLimit: 32 * 1024,
    requestTimeout: 30_000,
    // Closes connections whose client stopped reading; longer than any response takes.
    connectionTimeout: 120_000,
    // Longer than the idle timeouts of common proxies, so that the proxy closes connections first.
    keepAliveTimeout: 72_000,
    // Serves requests that arrive during the shutdown.
    return503OnClosing: false,
    http: {
      // Includes the request line. Node's 16 KiB are too small for a long token in `X-Cashu`.
      maxHeaderSize: 64 * 1024,
      headersTimeout: 10_000,
      // With Node's default of 30 s, the server would notice timeouts up to 30 s late.
      connectionsCheckingInterval: 5_000,
      // Overrides NODE_OPTIONS: a lenient parser allows request smuggling.
      insecureHTTPParser: false,
      requireHostHeader: false,
      // Node enforces no timeouts on upgraded connections, so only quote sockets are upgraded. None are upgraded during
      // the shutdown, or while an earlier request on the same connection waits for its response.
      shouldUpgradeCallback: (request) =>
        isQuoteSocketUpgrade(request) &&
        app.server.listening &&
        !hasPendingResponse(request.socket),
    },
    routerOptions: {
      ignoreTrailingSlash: true,
      ignoreDuplicateSlashes: true,
      // Longer than the longest URL, so that each route itself rejects long names and tokens.
      maxParamLength: 128 * 1024,
    },
    schemaController: {
      compilersFactory: {
        // The cast is needed because Fastify's types only allow JSON Schema compilers.
        buildValidator: (() => validatorCompiler) as never,
        // Response schemas serve types and documentation only (ADR 18).
        buildSerializer: () => () => JSON.stringify,
      },
    },
    rewriteUrl: ({ url = '' }) => escapeZapRequestAmpersands(removeOrigin(url)),
    // Handles errors that occur before any hook has run.
    frameworkErrors: (error, request, reply) => {
      setCommonHeaders(request, reply);
      sendError(error, request, reply);
    },
    clientErrorHandler: handleClientError,
  });
  registerErrorHandlers(app, options.sendErrorPage);
  recordLatestResponses(app.server);
  addCommonHooks(app, context, options.observer);
  limitConnections(app, limits.maxSockets, log);

  const { limitByAddress, limitByPubkey } = createRateLimitHooks(limits, monotonicMs);
  await app.register(websocket, {
    options: SOCKET_SERVER_OPTIONS,
    errorHandler: handleSocketError,
  });
  app.websocketServer.on('wsClientError', handleHandshakeError);
  // Ignores unknown `Expect` headers, for which Node would respond with 417 and no body.
  app.server.on('checkExpectation', (request, response) => {
    app.server.emit('request', request, response);
  });
  // Must run after the hook of the WebSocket plugin, which sets `request.ws`: `sendError` needs it.
  app.addHook('onRequest', limitByAddress);
  // The plugin only answers preflights. Outside a scope of its own, it would also add headers to all other responses.
  await app.register(async (scope) => {
    await scope.register(cors, {
      origin: '*',
      methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'OPTIONS'],
      // `allowedHeaders` is not set, so preflights allow any header, for example those of tracing libraries.
      maxAge: 86_400,
      strictPreflight: false,
    });
  });
  return { app, limitByPubkey };
}

/** Removes the origin of an absolute-form target (RFC 9112 section 3.2.2). `*` becomes `/*`, so it is not the home page. */
function removeOrigin(target: string): string {
  return target.startsWith('/') ? target : `/${target.replace(/^https?:\/\/[^/?#]*\/?/i, '')}`;
}

/** Closes connections beyond a limit, so that enough file descriptors remain for connections to mints. */
function limitConnections({ server }: FastifyInstance, maxQuoteSockets: number, log: Logger): void {
  if (maxQuoteSockets === 0) {
    return; // No limit.
  }
  const maxOtherConnections = 10_000;
  server.maxConnections = maxQuoteSockets + maxOtherConnections;
  server.once('drop', () =>
    log.warn(
      { event: 'connection_limit_reached', connections: server.maxConnections },
      'connection limit reached (LIMIT_SOCKETS); closing further connections',
    ),
  );
}

/** @param port 0 for any free port. @throws OperatorError */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  // `app.listen` would log the addresses of all interfaces.
  await app.ready();
  // New connections queue while the process is busy. With Node's default of 511, clients would wait or get ECONNRESET.
  app.server.listen({ host, port, backlog: 4_096 });
  await once(app.server, 'listening').catch(({ message }: Error) => {
    throw new OperatorError(`HOST, PORT: ${message}`);
  });
  const { address, family, port: chosenPort } = app.server.address() as AddressInfo;
  const hostname = family === 'IPv6' ? `[${address}]` : address;
  return `http://${hostname}:${chosenPort}`;
}

/** Stops listening, and closes each connection after its pending response, or after {@link CLIENT_DEADLINE_MS}. */
export async function close(app: FastifyInstance): Promise<void> {
  // Lets the server accept connections that are already in its queue. `app.close` would reset them.
  await nextEventLoopTurn();
  const deadline = setTimeout(() => app.server.closeAllConnections(), CLIENT_DEADLINE_MS);
  await app.close();
  clearTimeout(deadline);
}
