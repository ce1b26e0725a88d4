import type { FastifyPluginAsync } from 'fastify';
import type { HttpContext } from '../context.ts';

export const READY_PATH = '/health/ready';

/** Exempt, because supervisors send many requests from one address. */
const rateLimitConfig = { isRateLimitExempt: true } as const;

/**
 * `/health/live` shows whether the process responds. `/health/ready` returns 503 if load balancers should use another
 * process. It ignores unresponsive mints, because other processes could not reach them either. Both are public, so
 * only the metrics contain versions and counts.
 */
export const healthRoutes: FastifyPluginAsync<HttpContext> = async (app, { readiness }) => {
  app.get('/health/live', { config: rateLimitConfig }, async (_request, reply) => {
    reply.header('cache-control', 'no-store');
    return { status: 'live' };
  });
  app.get(READY_PATH, { config: rateLimitConfig }, async (_request, reply) => {
    reply.header('cache-control', 'no-store');
    const status = await readiness.getStatus();
    reply.code(status.status === 'ready' ? 200 : 503);
    return status;
  });
};
