import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import type { Readiness, Standing } from '../usecases/readiness.ts';

/** What {@link healthRoutes} need; `service.ts` constructs it. */
export interface HealthParts {
  readiness: Pick<Readiness, 'standing'>;
  /** Of this program. */
  version: string;
  /** How many mints this process watches, and how many of them did not answer the last time. */
  mintCounts: () => { watched: number; silent: number };
  /** Milliseconds since this process began, by a clock that never goes back. */
  monotonicMs: () => number;
}

/** What any answer tells of the process. */
interface Identity {
  version: string;
  uptimeSeconds: number;
}

/** `GET /health/live`. */
interface LiveAnswer extends Identity {
  status: 'live';
}

/** `GET /health/ready`. Mints are no reason not to be ready: another process would reach them no better. */
interface ReadyAnswer extends Identity, Standing {
  mints: { watched: number; silent: number };
}

/** Where balancers ask. */
export const READY_PATH = '/health/ready';

/** Those that ask come from one address, often, and must be answered when others are refused. */
const config = { isUnlimited: true } as const;

/**
 * What supervisors and balancers ask. `/health/live`: whether the process answers at all, with 503 never:
 * where it does not, a restart may help. `/health/ready`: whether it is to be sent requests, with 503 where
 * it is not; a restart would not help.
 */
export const healthRoutes: FastifyPluginAsync<HealthParts> = async (app, parts) => {
  const identity = (): Identity => ({
    version: parts.version,
    uptimeSeconds: Math.floor(parts.monotonicMs() / 1_000),
  });
  app.get('/health/live', { config }, async (_request, reply): Promise<LiveAnswer> => {
    forbidCaching(reply);
    return { status: 'live', ...identity() };
  });
  app.get(READY_PATH, { config }, async (_request, reply): Promise<ReadyAnswer> => {
    forbidCaching(reply);
    const standing = await parts.readiness.standing();
    reply.code(standing.status === 'ready' ? 200 : 503);
    return { ...standing, ...identity(), mints: parts.mintCounts() };
  });
};

function forbidCaching(reply: FastifyReply): void {
  reply.header('cache-control', 'no-store');
}
