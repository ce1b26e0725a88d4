import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { ReachedAs, ReachProof } from '../../auth/reach-proof.ts';
import { type Clock, toUnixSeconds } from '../../domain/clock.ts';
import { believedAddresses, unbelievedCount } from '../forwarded-for.ts';
import type { PublicHost } from '../public-host.ts';
import type { RateLimits } from '../rate-limits.ts';

/** Whoever runs the service has to find out also when his address asks too often. */
const config = { isUnlimited: true } as const;

/**
 * `GET /api/v2/reach`: how this request looked when it arrived, for `nutpost doctor`. To everybody who
 * does not know the service's secret it is a path that no route has, and counts as one.
 */
export const reachRoutes: FastifyPluginAsync<{
  reachProof: ReachProof;
  publicHost: PublicHost;
  rateLimits: Pick<RateLimits, 'countAddress'>;
  clock: Clock;
}> = async (app, { reachProof, publicHost, rateLimits, clock }) => {
  app.get('/api/v2/reach', { config }, async (request, reply) => {
    const question = /^Bearer\s+(\S+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
    const seen = reachedAs(request, publicHost);
    const answer = await reachProof.answer(question, seen, toUnixSeconds(clock()));
    if (answer === null) {
      rateLimits.countAddress(request);
      reply.callNotFound();
      return reply;
    }
    reply.header('cache-control', 'no-store');
    return { error: false, data: { reach: answer } };
  });
};

function reachedAs(request: FastifyRequest, publicHost: PublicHost): ReachedAs {
  return {
    addresses: believedAddresses(request),
    unbelieved: unbelievedCount(request),
    protocol: request.protocol,
    host: request.host ?? '',
    origin: publicHost.originFor(request),
    origins: [...publicHost.origins],
  };
}
