import type { FastifyPluginAsync } from 'fastify';
import type { JwtIssuer } from '../../auth/jwt.ts';
import { type Clock, toUnixSeconds } from '../../domain/clock.ts';
import { userAgentOf } from '../authenticate.ts';

/** `GET /api/v2/auth/nip98`: a signature against a short-lived token (spec.md section 4.7). */
export const tokenRoutes: FastifyPluginAsync<{ jwt: JwtIssuer; clock: Clock }> = async (
  app,
  { jwt, clock },
) => {
  app.get('/api/v2/auth/nip98', async (request) => ({
    error: false,
    data: {
      token: await jwt.issue(request.pubkey, userAgentOf(request), toUnixSeconds(clock())),
    },
  }));
};
