import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { type Clock, toUnixSeconds } from '../../clock.ts';
import { userAgentOf } from '../authenticate.ts';
import type { JwtIssuer } from '../jwt.ts';
import { apiErrors, success } from '../schemas.ts';

const schema = {
  operationId: 'getToken',
  tags: ['Wallets'],
  summary: 'A token for a signature',
  description:
    'The token is a JWT. It is valid for 30 minutes, and with the `User-Agent` of this request alone.',
  response: {
    200: success(z.object({ token: z.string() })).meta({ description: 'The token.' }),
    ...apiErrors(400, 401, 500),
  },
};

/** `GET /api/v2/auth/nip98`: a signature against a short-lived token (spec.md section 4.7). */
export const tokenRoutes: FastifyPluginAsync<{ jwt: JwtIssuer; clock: Clock }> = async (
  app,
  { jwt, clock },
) => {
  app
    .withTypeProvider<ZodTypeProvider>()
    .get('/api/v2/auth/nip98', { schema }, async (request) => ({
      error: false as const,
      data: {
        token: await jwt.issue(request.pubkey, userAgentOf(request), toUnixSeconds(clock())),
      },
    }));
};
