import type { FastifyInstance } from 'fastify';
import type { JwtIssuer } from '../auth/jwt.ts';
import type { Answered } from '../domain/answered.ts';
import type { Clock } from '../domain/clock.ts';
import type { InboundLimits } from '../domain/limits.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';
import type { ChangeSettings } from '../usecases/change-settings.ts';
import type { IssueInvoice } from '../usecases/issue-invoice.ts';
import type { PaymentTerms } from '../usecases/payment-terms.ts';
import type { PurchaseUsername } from '../usecases/purchase-username.ts';
import type { Readiness } from '../usecases/readiness.ts';
import type { RecipientRelays } from '../usecases/recipient-relays.ts';
import type { Recipients } from '../usecases/recipients.ts';
import { infoRoutes } from './api/info.ts';
import type { QuoteSockets } from './api/quote-sockets.ts';
import { quoteRoutes } from './api/quotes.ts';
import { tokenRoutes } from './api/token.ts';
import { userRoutes } from './api/user.ts';
import { usernameRoutes } from './api/username.ts';
import { describeApi, securedBy } from './api-description.ts';
import type { Authenticator } from './authenticate.ts';
import { documentationRoutes } from './documentation.ts';
import { type HealthParts, healthRoutes } from './health.ts';
import { lnurlRoutes, type ZapParts } from './lnurl.ts';
import { nip05Routes } from './nip05.ts';
import type { PublicHost } from './public-host.ts';
import { createServer } from './server.ts';
import { verifyRoutes } from './verify.ts';

/** What the routes need, constructed by `service.ts`. */
export interface AppParts extends HealthParts {
  log: Log;
  clock: Clock;
  trustProxy: readonly string[];
  limits: InboundLimits;
  lnurlText: string;
  maxCommentLength: number;
  zaps: ZapParts | null;
  publicHost: PublicHost;
  authenticator: Authenticator;
  jwt: JwtIssuer;
  store: Store;
  recipients: Recipients;
  recipientRelays: RecipientRelays;
  changeSettings: ChangeSettings;
  paymentTerms: PaymentTerms;
  issueInvoice: IssueInvoice;
  purchaseUsername: PurchaseUsername;
  quoteSockets: QuoteSockets;
  readiness: Readiness;
  /** Null: nobody wants to hear of them. */
  onAnswered: ((answer: Answered) => void) | null;
}

/** The HTTP server: the table of contents of everything that can be asked of this service. */
export async function createApp(parts: AppParts): Promise<FastifyInstance> {
  const { app, rateLimits } = await createServer(parts);
  await describeApi(app);

  // Supervisors and balancers: anyone.
  await app.register(healthRoutes, parts);

  // Payers and name lookups: anyone.
  await app.register(lnurlRoutes, parts);
  await app.register(verifyRoutes, parts);
  await app.register(nip05Routes, parts);

  // Wallets: anyone.
  await app.register(infoRoutes, parts);
  parts.quoteSockets.register(app);

  // Wallets: whoever signs this very request with a Nostr key.
  await app.register(async (scope) => {
    scope.addHook('onRoute', securedBy('nostr'));
    scope.addHook('onRequest', parts.authenticator.requireEvent);
    scope.addHook('onRequest', rateLimits.limitKey);
    scope.addHook('preValidation', parts.authenticator.requireSignedBody);
    await scope.register(tokenRoutes, parts);
  });

  // Wallets: users, by signature or token.
  await app.register(async (scope) => {
    scope.addHook('onRoute', securedBy('nostr', 'bearer'));
    scope.addHook('onRequest', parts.authenticator.requireUser);
    scope.addHook('onRequest', rateLimits.limitKey);
    scope.addHook('preValidation', parts.authenticator.requireSignedBody);
    await scope.register(quoteRoutes, parts);
    await scope.register(userRoutes, parts);
    await scope.register(usernameRoutes, parts);
  });

  // Their developers: anyone.
  await app.register(documentationRoutes);

  return app;
}
