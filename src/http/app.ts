import type { Readiness } from '../database/readiness.ts';
import type { MintInfoCache } from '../mints/mint-cache.ts';
import type { SettingsUpdater } from '../recipients/settings-updater.ts';
import type { Store } from '../store.ts';
import type { UsernameRegistrar } from '../usernames/username-registrar.ts';
import type { RelayListCache } from '../zaps/relay-list-cache.ts';
import { infoRoutes } from './api/info.ts';
import { nameRoutes } from './api/names.ts';
import { QuoteSocketServer, type QuoteSocketServerDeps } from './api/quote-socket-server.ts';
import { findQuotesRoute, quoteRoutes } from './api/quotes.ts';
import { tokenRoutes } from './api/token.ts';
import { userRoutes } from './api/user.ts';
import { usernameRoutes } from './api/username.ts';
import { walletSummaryRoutes } from './api/wallet-summary.ts';
import { Authenticator, type AuthenticatorDeps } from './authenticator.ts';
import { JwtIssuer } from './jwt.ts';
import { documentSecurity, registerOpenApi } from './openapi.ts';
import { docsRoutes } from './routes/docs.ts';
import { type HealthDeps, healthRoutes } from './routes/health.ts';
import { type LnurlDeps, lnurlRoutes } from './routes/lnurl.ts';
import { lnurlVerifyRoutes } from './routes/lnurl-verify.ts';
import { nip05Routes } from './routes/nip05.ts';
import { createServer, PublicOrigins, type ServerDeps } from './server.ts';
import { sendErrorPage } from './web/error-page.ts';
import { loadWebPages, type WebSettings } from './web/web-pages.ts';
import { type WebDeps, webRoutes } from './web/web-routes.ts';

interface HttpOptions
  extends Omit<ServerDeps, 'sendErrorPage'>,
    HealthDeps,
    Omit<AuthenticatorDeps, 'publicOrigins' | 'jwt'>,
    Omit<QuoteSocketServerDeps, 'publicOrigins' | 'authenticator'>,
    Omit<LnurlDeps, 'publicOrigins'>,
    Pick<WebDeps, 'hasZaps' | 'allowPrivateNetworks'> {
  readiness: Readiness;
  store: Store;
  /** The first is canonical. If empty, the local address is used. */
  publicOrigins: readonly string[];
  jwtSecret: string;
  jwtSecretPrevious: string | null;
  recipientRelays: RelayListCache;
  settingsUpdater: SettingsUpdater;
  mintInfoCache: MintInfoCache;
  usernameRegistrar: UsernameRegistrar;
  /** Null: the pages are switched off. */
  web: WebSettings | null;
}

/** Creates the HTTP server with all routes. It does not listen yet. */
export async function createHttp(options: HttpOptions) {
  const publicOrigins = new PublicOrigins(options.publicOrigins);
  const jwt = new JwtIssuer(options.jwtSecret, options.jwtSecretPrevious);
  const deps = { ...options, publicOrigins, jwt };
  const authenticator = new Authenticator(deps);
  const quoteSockets = new QuoteSocketServer({ ...deps, authenticator });
  const web = await loadWebPages(options.web, options.log);
  const { app, rateLimiter } = await createServer({
    ...options,
    sendErrorPage: web && ((reply, error) => sendErrorPage(reply, web.branding.siteName, error)),
  });
  await registerOpenApi(app);

  // For supervisors and load balancers.
  await app.register(healthRoutes, deps);

  // For payers and name lookups.
  await app.register(lnurlRoutes, deps);
  await app.register(lnurlVerifyRoutes, deps);
  await app.register(nip05Routes, deps);

  // For wallets, without authentication. Clients of the quote socket authenticate after the handshake.
  await app.register(infoRoutes, deps);
  await app.register(nameRoutes, deps);
  quoteSockets.registerRoute(app);

  // For wallets, with NIP-98.
  await app.register(async (scope) => {
    scope.addHook('onRoute', documentSecurity('nostr'));
    scope.addHook('onRequest', authenticator.requireNip98);
    scope.addHook('onRequest', rateLimiter.limitByPubkey);
    scope.addHook('preValidation', authenticator.requireMatchingPayloadHash);
    await scope.register(tokenRoutes, deps);
  });

  // For wallets, with NIP-98 or a JWT.
  await app.register(async (scope) => {
    scope.addHook('onRoute', documentSecurity('nostr', 'bearer'));
    scope.addHook('onRequest', authenticator.requireNip98OrJwt);
    scope.addHook('onRequest', rateLimiter.limitByPubkey);
    scope.addHook('preValidation', authenticator.requireMatchingPayloadHash);
    await scope.register(quoteRoutes, deps);
    await scope.register(findQuotesRoute, deps);
    await scope.register(walletSummaryRoutes, deps);
    await scope.register(userRoutes, deps);
    await scope.register(usernameRoutes, deps);
  });

  // For developers.
  await app.register(docsRoutes);

  // For people.
  if (web !== null) {
    await app.register(webRoutes, { ...deps, web });
  }

  return { app, publicOrigins, quoteSockets };
}
