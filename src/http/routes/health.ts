import type { Routes } from '../context.ts';

export const READY_PATH = '/health/ready';

/** Supervisors send many requests from one address. */
const rateLimitConfig = { isRateLimitExempt: true } as const;

/** Readiness ignores mints, which other processes could not reach either. Both routes are public, so they say no more. */
export const healthRoutes: Routes = async (app, { readiness }) => {
  app.get('/health/live', { config: rateLimitConfig }, async (_request, reply) => {
    reply.header('cache-control', 'no-store');
    return { status: 'live' };
  });
  app.get(READY_PATH, { config: rateLimitConfig }, async (_request, reply) => {
    reply.header('cache-control', 'no-store');
    const body = await readiness.getStatus();
    reply.code(body.status === 'ready' ? 200 : 503);
    return body;
  });
};
