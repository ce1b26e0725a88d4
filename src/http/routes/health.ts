import type { FastifyPluginAsync } from 'fastify';
import type { Readiness } from '../../database/readiness.ts';

export interface HealthParts {
  readiness: Pick<Readiness, 'status'>;
  version: string;
  /** How many mints this process watches, and how many of them did not answer the last request. */
  mintCounts: () => { watched: number; silent: number };
  /** Milliseconds since this process started. */
  monotonicMs: () => number;
}

/** Load balancers ask here. */
export const READY_PATH = '/health/ready';

/** Supervisors ask often, from one address, and need an answer even if other requests are rejected. */
const config = { isUnlimited: true } as const;

/**
 * `/health/live`: whether the process responds at all; if it does not, a restart may help. `/health/ready`: whether to
 * route requests to it, with 503 if not. Mints do not count: another process would reach them no better.
 */
export const healthRoutes: FastifyPluginAsync<HealthParts> = async (app, parts) => {
  const { version, monotonicMs, readiness, mintCounts } = parts;
  const identity = () => ({ version, uptimeSeconds: Math.floor(monotonicMs() / 1_000) });
  app.get('/health/live', { config }, async (_request, reply) => {
    reply.header('cache-control', 'no-store');
    return { status: 'live', ...identity() };
  });
  app.get(READY_PATH, { config }, async (_request, reply) => {
    reply.header('cache-control', 'no-store');
    const status = await readiness.status();
    reply.code(status.status === 'ready' ? 200 : 503);
    return { ...status, ...identity(), mints: mintCounts() };
  });
};
