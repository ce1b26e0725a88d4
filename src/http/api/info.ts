import type { FastifyPluginAsync } from 'fastify';

/** `GET /api/v2/info`: what this provider offers (spec.md section 4.1). */
export const infoRoutes: FastifyPluginAsync = async (app) => {
  app.get('/api/v2/info', async (_request, reply) => {
    reply.header('cache-control', 'public, max-age=300');
    return { error: false, data: { version: 2, features: { username: { enabled: false } } } };
  });
};
