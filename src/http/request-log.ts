import type { FastifyInstance } from 'fastify';

/**
 * One line for each answer. The route stands for the path, which may hold a verify token, and
 * headers and bodies are left out: tokens, signatures and quote ids are secret.
 */
export function logRequests(app: FastifyInstance): void {
  app.addHook('onResponse', async (request, reply) => {
    request.log.debug(
      {
        method: request.method,
        route: request.routeOptions.url ?? 'none',
        status: reply.statusCode,
        tookMs: Math.round(reply.elapsedTime),
      },
      'answered',
    );
  });
}
