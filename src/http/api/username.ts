import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { RequestError } from '../../errors.ts';
import { toAddressPrefixes, toQueueGroup } from '../../net/address-prefixes.ts';
import { MAX_USERNAME_LENGTH, MIN_USERNAME_LENGTH } from '../../recipients/lightning-address.ts';
import type { RecipientDirectory } from '../../recipients/recipient-directory.ts';
import { registerUsername, type UsernameContext } from '../../usernames/register-username.ts';
import { apiError, errorResponses, jsonBody, renderUser, userResponse } from '../schemas.ts';

const schema = {
  operationId: 'buyUsername',
  tags: ['Wallets'],
  summary: 'Buy a username',
  description:
    'Without a token, the response is 402 with a payment request in `X-Cashu`. The client pays it and ' +
    'repeats the request with the token in `X-Cashu` (NUT-24). An unpaid name is not held for the client.',
  headers: z.object({
    'x-cashu': z.string().optional().describe('A Cashu token that pays the payment request.'),
  }),
  body: jsonBody({
    // `registerUsername` validates the name, with better error messages.
    username: z.string({ error: 'must be a string' }).meta({
      minLength: MIN_USERNAME_LENGTH,
      maxLength: MAX_USERNAME_LENGTH,
      pattern: '^(?!npub1)[A-Za-z0-9]+$',
    }),
  }),
  response: {
    201: userResponse.meta({ description: 'The user owns the name.' }),
    402: apiError.meta({
      description: 'A payment is required, or the supplied payment is invalid.',
      headers: {
        'X-Cashu': {
          type: 'string',
          pattern: '^creqA',
          description: 'The payment request (NUT-18).',
        },
      },
    }),
    409: apiError.meta({ description: 'The name is taken, or being bought with another token.' }),
    ...errorResponses(apiError, 400, 401, 413, 500, 503),
  },
};

/** `POST /api/v2/user/username`. */
export const usernameRoutes: FastifyPluginAsyncZod<{
  recipients: RecipientDirectory;
  usernames: UsernameContext;
}> = async (app, { recipients, usernames }) => {
  app.post(
    '/api/v2/user/username',
    { schema, config: { rateLimitCategory: 'purchases' } },
    async (request, reply) => {
      const { pubkey, body, headers } = request;
      const token = headers['x-cashu']?.trim() || null;
      const { username } = body;
      const result = await registerUsername(usernames, {
        pubkey,
        username,
        token,
        addressGroup: toQueueGroup(toAddressPrefixes(request.ip)),
      });
      if (result.outcome === 'payment_required') {
        reply.header('x-cashu', result.request);
        throw new RequestError('payment_required', result.message);
      }
      reply.code(201);
      return renderUser(await recipients.getByPubkey(pubkey));
    },
  );
};
