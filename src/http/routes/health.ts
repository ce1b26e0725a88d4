import type { Routes } from '../context.ts';

export const READY_PATH = '/health/ready';

/** Exempt, because supervisors send many requests from one address. */
const rateLimitConfig = { isRateLimitExempt: true } as const;

/**
 * A process stays ready if mints do not respond, because other processes could not reach them either. Only the metrics
 * contain versions and counts, because both routes are public.
 */
export const healthRoutes: Routes = async (app, { readiness }) => {
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
