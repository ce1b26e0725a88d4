import type { AddressInfo } from 'node:net';
import cors from '@fastify/cors';
import websocket from '@fastify/websocket';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod';
import type { Log } from '../log.ts';
import { dropBrokenSocket, isQuoteSocketUpgrade } from './api/quote-socket.ts';
import { decorateForAuthentication } from './authenticate.ts';
import { keepBodyBytes } from './body.ts';
import { endConnectionsOnClose } from './last-answers.ts';
import {
  MAX_BODY_BYTES,
  MAX_HEADER_BYTES,
  MAX_PATH_PARAMETER_LENGTH,
  MAX_SOCKET_MESSAGE_BYTES,
  REQUEST_TIMEOUT_MS,
} from './limits.ts';
import { registerErrorAnswers, sendError } from './refusals.ts';
import { logRequests } from './request-log.ts';
import {
  answerBadHandshake,
  answerUnreadableRequest,
  rememberAskedPaths,
} from './unreadable-requests.ts';

/**
 * The HTTP server before it has any route: its limits, its errors in every dialect, what browsers may
 * do, and WebSockets.
 */
export async function createServer(parts: {
  log: Log;
  trustProxy: readonly string[];
}): Promise<FastifyInstance> {
  const logger: FastifyBaseLogger = parts.log;
  const app = Fastify({
    loggerInstance: logger,
    // `request-log.ts` writes one line for each answer, without what is secret in a url.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: [...parts.trustProxy],
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // What still comes while the server closes is answered as ever; `last-answers.ts` ends it.
    return503OnClosing: false,
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      requireHostHeader: false,
      shouldUpgradeCallback: isQuoteSocketUpgrade,
    },
    routerOptions: {
      ignoreTrailingSlash: true,
      ignoreDuplicateSlashes: true,
      maxParamLength: MAX_PATH_PARAMETER_LENGTH,
    },
    // A target may be given with its origin (RFC 9112 section 3.2.2); everything here reads paths.
    rewriteUrl: (request) => (request.url ?? '').replace(/^https?:\/\/[^/?#]*/i, '') || '/',
    frameworkErrors: sendError,
    clientErrorHandler: answerUnreadableRequest,
  });
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  registerErrorAnswers(app);
  rememberAskedPaths(app.server);
  logRequests(app);
  keepBodyBytes(app);
  endConnectionsOnClose(app);
  decorateForAuthentication(app);

  await app.register(cors, {
    origin: '*',
    methods: ['GET', 'HEAD', 'POST', 'PATCH', 'OPTIONS'],
    allowedHeaders: ['Authorization', 'Content-Type', 'X-Cashu'],
    exposedHeaders: ['X-Cashu', 'Retry-After'],
    maxAge: 86_400,
    strictPreflight: false,
  });
  await app.register(websocket, {
    options: { maxPayload: MAX_SOCKET_MESSAGE_BYTES },
    errorHandler: dropBrokenSocket,
  });
  app.websocketServer.on('wsClientError', answerBadHandshake);
  // An expectation that is not known is passed over, rather than refused without a body.
  app.server.on('checkExpectation', (request, response) => {
    app.server.emit('request', request, response);
  });

  return app;
}

/** Listens. @returns the address, with the port that the system chose where `port` is 0 */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  await app.listen({ host, port });
  const { address, family, port: chosenPort } = app.server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${chosenPort}`;
}
