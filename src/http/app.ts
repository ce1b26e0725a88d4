import { infoRoutes } from './api/info.ts';
import { notificationRoutes } from './api/notifications.ts';
import { QuoteSocketServer, type QuoteSocketTiming } from './api/quote-socket-server.ts';
import { quoteRoutes } from './api/quotes.ts';
import { membershipRoutes, tokenRoutes, userRoutes } from './api/user.ts';
import { nameRoutes, usernameRoutes } from './api/username.ts';
import { Authenticator } from './authenticator.ts';
import type { RequestObserver } from './common-hooks.ts';
import type { HttpContext } from './context.ts';
import { documentSecurity, registerOpenApi } from './openapi.ts';
import { docsRoutes } from './routes/docs.ts';
import { healthRoutes } from './routes/health.ts';
import { lnurlRoutes } from './routes/lnurl.ts';
import { nip05Routes } from './routes/nip05.ts';
import { close, createServer } from './server.ts';
import { sendErrorPage } from './web/error-page.ts';
import { loadWebPages, type WebSettings, webRoutes } from './web/web-routes.ts';

interface HttpSettings {
  trustProxy: readonly string[];
  /** Null if the web pages are switched off. */
  web: WebSettings | null;
  socketTiming: QuoteSocketTiming;
  observer: RequestObserver;
}

export async function createHttp(context: HttpContext, settings: HttpSettings) {
  const authenticator = new Authenticator(context);
  const quoteSockets = new QuoteSocketServer(context, authenticator, settings.socketTiming);
  const web = settings.web === null ? null : await loadWebPages(settings.web, context.log);
  const { app, limitByPubkey } = await createServer(context, {
    trustProxy: settings.trustProxy,
    sendErrorPage: web && ((reply, error) => sendErrorPage(reply, web, error)),
    observer: settings.observer,
  });
  await registerOpenApi(app);

  await app.register(healthRoutes, context);

  // For payers and name lookups.
  await app.register(lnurlRoutes, context);
  await app.register(nip05Routes, context);

  // For wallets, without authentication. Clients of the quote socket authenticate after the handshake.
  await app.register(infoRoutes, context);
  await app.register(nameRoutes, context);
  quoteSockets.registerRoute(app);

  // For wallets, with NIP-98.
  await app.register(async (scope) => {
    scope.addHook('onRoute', documentSecurity('nostr'));
    scope.addHook('onRequest', authenticator.requireNip98);
    scope.addHook('onRequest', limitByPubkey);
    scope.addHook('preValidation', authenticator.requireMatchingPayloadHash);
    await scope.register(tokenRoutes, context);
  });

  // For wallets, with NIP-98 or a JWT.
  await app.register(async (scope) => {
    scope.addHook('onRoute', documentSecurity('nostr', 'bearer'));
    scope.addHook('onRequest', authenticator.requireNip98OrJwt);
    scope.addHook('onRequest', limitByPubkey);
    scope.addHook('preValidation', authenticator.requireMatchingPayloadHash);
    await scope.register(quoteRoutes, context);
    await scope.register(userRoutes, context);
    await scope.register(usernameRoutes, context);
    if (context.usernames.policy.membersOnly) {
      await scope.register(membershipRoutes, context);
    }
    if (context.notifications !== null) {
      await scope.register(notificationRoutes, context.notifications);
    }
  });

  // For developers.
  await app.register(docsRoutes);

  // For people.
  if (web !== null) {
    await app.register(webRoutes, { context, web });
  }

  return {
    app,
    quoteSockets,
    close: async () => {
      quoteSockets.closeAll();
      await close(app);
    },
  };
}
