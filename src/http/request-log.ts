import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { READY_PATH } from './health.ts';

/**
 * One line for each answer. The route stands for the path, which may hold a verify token, and
 * headers and bodies are left out: tokens, signatures and quote ids are secret.
 */
export function logRequests(app: FastifyInstance): void {
  app.addHook('onResponse', async (request, reply) => {
    request.log[levelOf(request, reply)](
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

/** People report what fails, and name it by the id of its answer; balancers ask again and again. */
function levelOf({ routeOptions }: FastifyRequest, { statusCode }: FastifyReply): 'info' | 'debug' {
  return statusCode >= 500 && routeOptions.url !== READY_PATH ? 'info' : 'debug';
}
