import type { AddressInfo } from 'node:net';
import cors from '@fastify/cors';
import websocket from '@fastify/websocket';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod';
import type { JwtIssuer } from '../auth/jwt.ts';
import type { Clock } from '../domain/clock.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';
import type { ChangeSettings } from '../usecases/change-settings.ts';
import type { IssueInvoice } from '../usecases/issue-invoice.ts';
import type { PaymentTerms } from '../usecases/payment-terms.ts';
import type { Recipients } from '../usecases/recipients.ts';
import { infoRoutes } from './api/info.ts';
import { dropBrokenSocket, isQuoteSocketUpgrade, type QuoteSockets } from './api/quote-socket.ts';
import { quoteRoutes } from './api/quotes.ts';
import { tokenRoutes } from './api/token.ts';
import { userRoutes } from './api/user.ts';
import { usernameRoutes } from './api/username.ts';
import { type Authenticator, decorateForAuthentication } from './authenticate.ts';
import { keepBodyBytes } from './body.ts';
import { endConnectionsOnClose } from './last-answers.ts';
import {
  MAX_BODY_BYTES,
  MAX_HEADER_BYTES,
  MAX_PATH_PARAMETER_LENGTH,
  MAX_SOCKET_MESSAGE_BYTES,
  REQUEST_TIMEOUT_MS,
} from './limits.ts';
import { lnurlRoutes } from './lnurl.ts';
import { nip05Routes } from './nip05.ts';
import type { PublicHost } from './public-host.ts';
import { registerErrorAnswers, sendError } from './refusals.ts';
import { logRequests } from './request-log.ts';
import {
  answerBadHandshake,
  answerUnreadableRequest,
  rememberAskedPaths,
} from './unreadable-requests.ts';
import { verifyRoutes } from './verify.ts';

/** What the routes need, constructed by `service.ts`. */
export interface AppParts {
  log: Log;
  clock: Clock;
  trustProxy: readonly string[];
  lnurlText: string;
  publicHost: PublicHost;
  authenticator: Authenticator;
  jwt: JwtIssuer;
  store: Store;
  recipients: Recipients;
  changeSettings: ChangeSettings;
  paymentTerms: PaymentTerms;
  issueInvoice: IssueInvoice;
  quoteSockets: QuoteSockets;
}

/** The HTTP server: the table of contents of everything that can be asked of this service. */
export async function createApp(parts: AppParts): Promise<FastifyInstance> {
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

  // Payers and name lookups: anyone.
  await app.register(lnurlRoutes, parts);
  await app.register(verifyRoutes, parts);
  await app.register(nip05Routes, parts);

  // Wallets: anyone.
  await app.register(infoRoutes);
  parts.quoteSockets.register(app);

  // Wallets: whoever signs this very request with a Nostr key.
  await app.register(async (scope) => {
    scope.addHook('onRequest', parts.authenticator.requireEvent);
    scope.addHook('preValidation', parts.authenticator.requireSignedBody);
    await scope.register(tokenRoutes, parts);
  });

  // Wallets: users, by signature or token.
  await app.register(async (scope) => {
    scope.addHook('onRequest', parts.authenticator.requireUser);
    scope.addHook('preValidation', parts.authenticator.requireSignedBody);
    await scope.register(quoteRoutes, parts);
    await scope.register(userRoutes, parts);
    await scope.register(usernameRoutes);
  });

  return app;
}

/** Listens. @returns the address, with the port that the system chose where `port` is 0 */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  await app.listen({ host, port });
  const { address, family, port: chosenPort } = app.server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${chosenPort}`;
}
