import swaggerUi from '@fastify/swagger-ui';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { Refusal } from '../domain/errors.ts';

/** The page has no inline script or style, and needs nothing from elsewhere. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Its icons stand in its style sheet, as data.
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Of the page's files, the one that redirects, and by the url as it came: `//docs/...` is another host. */
const REDIRECT = '/docs/static/index.html';

/** The API's description for programs, and the page that shows it to people. */
export const documentationRoutes: FastifyPluginAsync = async (app) => {
  let description: string | null = null;
  app.get('/api/v2/openapi.json', async (_request, reply) => {
    description ??= JSON.stringify(app.swagger());
    reply.header('cache-control', 'public, max-age=300');
    return reply.type('application/json; charset=utf-8').send(description);
  });

  await app.register(async (scope) => {
    scope.addHook('onRequest', refuseRedirect);
    scope.addHook('onSend', async (_request, reply) => {
      reply.headers({
        'content-security-policy': CONTENT_SECURITY_POLICY,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
      });
    });
    await scope.register(swaggerUi, {
      routePrefix: '/docs',
      theme: { title: 'nutpost: the API' },
      uiConfig: {
        layout: 'BaseLayout',
        // To be read, and tried where that changes nothing.
        supportedSubmitMethods: ['get'],
      },
    });
  });
};

async function refuseRedirect({ routeOptions }: FastifyRequest): Promise<void> {
  if (routeOptions.url === REDIRECT) {
    throw new Refusal('not_found', 'Not found.');
  }
}
