import type { FastifyInstance } from 'fastify';
import type { Clock } from '../clock.ts';
import type { Readiness } from '../database/readiness.ts';
import type { ChangeSettings } from '../recipients/change-settings.ts';
import type { Store } from '../store.ts';
import type { PurchaseUsername } from '../usernames/purchase-username.ts';
import type { RecipientRelays } from '../zaps/recipient-relays.ts';
import { infoRoutes } from './api/info.ts';
import type { QuoteSockets } from './api/quote-sockets.ts';
import { quoteRoutes } from './api/quotes.ts';
import { tokenRoutes } from './api/token.ts';
import { userRoutes } from './api/user.ts';
import { usernameRoutes } from './api/username.ts';
import { describeApi, securedBy } from './api-description.ts';
import type { Authenticator } from './authenticate.ts';
import type { JwtIssuer } from './jwt.ts';
import { documentationRoutes } from './routes/docs.ts';
import { type HealthParts, healthRoutes } from './routes/health.ts';
import { type LnurlParts, lnurlRoutes } from './routes/lnurl.ts';
import { nip05Routes } from './routes/nip05.ts';
import { verifyRoutes } from './routes/verify.ts';
import { createServer, type ServerParts } from './server.ts';

export interface AppParts extends ServerParts, HealthParts, LnurlParts {
  readiness: Readiness;
  clock: Clock;
  authenticator: Authenticator;
  jwt: JwtIssuer;
  store: Store;
  recipientRelays: RecipientRelays;
  changeSettings: ChangeSettings;
  purchaseUsername: PurchaseUsername;
  quoteSockets: QuoteSockets;
}

/** Creates the HTTP server: the table of contents of all routes. */
export async function createApp(parts: AppParts): Promise<FastifyInstance> {
  const { app, rateLimits } = await createServer(parts);
  await describeApi(app);

  // Supervisors and load balancers: anyone.
  await app.register(healthRoutes, parts);

  // Payers and name lookups: anyone.
  await app.register(lnurlRoutes, parts);
  await app.register(verifyRoutes, parts);
  await app.register(nip05Routes, parts);

  // Wallets: anyone.
  await app.register(infoRoutes, parts);
  parts.quoteSockets.register(app);

  // Wallets: with a NIP-98 signature.
  await app.register(async (scope) => {
    scope.addHook('onRoute', securedBy('nostr'));
    scope.addHook('onRequest', parts.authenticator.requireEvent);
    scope.addHook('onRequest', rateLimits.limitKey);
    scope.addHook('preValidation', parts.authenticator.requireSignedBody);
    await scope.register(tokenRoutes, parts);
  });

  // Wallets: with a NIP-98 signature or a token.
  await app.register(async (scope) => {
    scope.addHook('onRoute', securedBy('nostr', 'bearer'));
    scope.addHook('onRequest', parts.authenticator.requireUser);
    scope.addHook('onRequest', rateLimits.limitKey);
    scope.addHook('preValidation', parts.authenticator.requireSignedBody);
    await scope.register(quoteRoutes, parts);
    await scope.register(userRoutes, parts);
    await scope.register(usernameRoutes, parts);
  });

  // Developers: anyone.
  await app.register(documentationRoutes);

  return app;
}
