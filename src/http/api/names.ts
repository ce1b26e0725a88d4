import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import {
  checkUsernameAvailability,
  type UsernameContext,
} from '../../usernames/register-username.ts';
import { apiError, errorResponses, successEnvelope } from '../schemas.ts';

/** The next purchase may change the response. */
const CACHE_CONTROL = 'no-store';

const nameAvailability = z
  .object({
    name: z.string().optional().describe('The name in lower case; absent if it is invalid.'),
    available: z.boolean(),
    reason: z
      .enum(['invalid', 'reserved', 'taken', 'not_for_sale'])
      .optional()
      .describe(
        'Why the name is not available. `taken` includes names that are held for a purchase or for their ' +
          'previous owner.',
      ),
  })
  .meta({ id: 'NameAvailability', description: 'Whether a username can be bought.' });

const schema = {
  operationId: 'checkName',
  tags: ['Wallets'],
  summary: 'Check whether a username is available',
  description:
    'For a check while the user types. The response does not depend on the user: a name that the user ' +
    'already has is taken. An available name is not held for anyone.',
  params: z.object({ name: z.string().describe('A username, in upper or lower case.') }),
  response: {
    200: successEnvelope(nameAvailability).meta({
      description: 'Whether the name is available, also if it is invalid.',
      headers: { 'Cache-Control': { const: CACHE_CONTROL } },
    }),
    ...errorResponses(apiError, 400, 500, 503),
  },
};

/** `GET /api/v2/names/{name}`: reveals no more than an attempt to buy the name. */
export const nameRoutes: FastifyPluginAsyncZod<{
  usernames: UsernameContext;
}> = async (app, { usernames }) => {
  app.get(
    '/api/v2/names/:name',
    { schema, config: { rateLimitCategory: 'names' } },
    async (request, reply) => {
      const { name, obstacle } = await checkUsernameAvailability(usernames, request.params.name);
      reply.header('cache-control', CACHE_CONTROL);
      return {
        error: false as const,
        data: {
          name: name ?? undefined,
          available: obstacle === null,
          reason: obstacle ?? undefined,
        },
      };
    },
  );
};
