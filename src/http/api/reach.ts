import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { ReachedAs, ReachProof } from '../../auth/reach-proof.ts';
import { type Clock, toUnixSeconds } from '../../domain/clock.ts';
import type { PublicHost } from '../public-host.ts';

/**
 * `GET /api/v2/reach`: how this request looked when it arrived, for `nutpost doctor`. To everybody who
 * does not know the service's secret it is a path that no route has.
 */
export const reachRoutes: FastifyPluginAsync<{
  reachProof: ReachProof;
  publicHost: PublicHost;
  clock: Clock;
}> = async (app, { reachProof, publicHost, clock }) => {
  app.get('/api/v2/reach', async (request, reply) => {
    const question = /^Bearer\s+(\S+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
    const seen = reachedAs(request, publicHost);
    const answer = await reachProof.answer(question, seen, toUnixSeconds(clock()));
    if (answer === null) {
      reply.callNotFound();
      return reply;
    }
    reply.header('cache-control', 'no-store');
    return { error: false, data: { reach: answer } };
  });
};

function reachedAs(request: FastifyRequest, publicHost: PublicHost): ReachedAs {
  const isForwarded = (request.headers['x-forwarded-for'] ?? '') !== '';
  // One that is trusted is followed to the address behind it.
  const isTrusted = (request.ips ?? []).length > 1;
  return {
    clientAddress: request.ip,
    peerAddress: request.socket.remoteAddress ?? '',
    isForwarded,
    isProxyUntrusted: isForwarded && !isTrusted,
    protocol: request.protocol,
    host: request.host ?? '',
    origin: publicHost.originFor(request),
    origins: [...publicHost.origins],
  };
}
