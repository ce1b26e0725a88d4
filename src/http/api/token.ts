import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { toUnixSeconds } from '../../clock.ts';
import type { HttpContext } from '../context.ts';
import { apiError, errorResponses, successEnvelope } from '../schemas.ts';

const schema = {
  operationId: 'getToken',
  tags: ['Wallets'],
  summary: 'Get a JWT',
  description: 'The token is valid for 30 minutes and only with the `User-Agent` of this request.',
  response: {
    200: successEnvelope(z.object({ token: z.string() })).meta({ description: 'The JWT.' }),
    ...errorResponses(apiError, 400, 401, 500, 503),
  },
};

/** `GET /api/v2/auth/nip98`: exchanges a NIP-98 signature for a JWT. */
export const tokenRoutes: FastifyPluginAsyncZod<HttpContext> = async (app, { jwt, clock }) => {
  app.get('/api/v2/auth/nip98', { schema }, async (request) => {
    const userAgent = request.headers['user-agent'];
    const token = jwt.issue(request.pubkey, userAgent, toUnixSeconds(clock()));
    return { error: false as const, data: { token } };
  });
};
