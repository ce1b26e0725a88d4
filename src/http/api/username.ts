import { MAX_USERNAME_LENGTH, MIN_USERNAME_LENGTH } from '../../recipients/address.ts';
import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { Refusal } from '../../errors.ts';
import type { Recipients } from '../../recipients/recipients.ts';
import type { PurchaseUsername } from '../../usernames/purchase-username.ts';
import { apiError, apiErrors, jsonBody } from '../schemas.ts';
import { renderUser, userResponse } from './user.ts';

interface UsernameParts {
  recipients: Recipients;
  purchaseUsername: PurchaseUsername;
}

const body = jsonBody({
  // The purchase checks the name, with better error messages.
  username: z.string({ error: 'must be a string' }).meta({
    minLength: MIN_USERNAME_LENGTH,
    maxLength: MAX_USERNAME_LENGTH,
    pattern: '^(?!npub1)[A-Za-z0-9]+$',
  }),
});

const schema = {
  operationId: 'buyUsername',
  tags: ['Wallets'],
  summary: 'Buy a username',
  description:
    'Asked without a token, it answers with a payment request in `X-Cashu`; the client pays it and ' +
    'asks again with the token in `X-Cashu` (NUT-24). A name that is not paid for is not held.',
  headers: z.object({
    'x-cashu': z.string().optional().describe('A Cashu token that pays the payment request.'),
  }),
  body,
  response: {
    201: userResponse.meta({ description: 'The name is the user’s.' }),
    402: apiError.meta({
      description: 'A payment is required, or what was sent does not pay.',
      headers: {
        'X-Cashu': {
          type: 'string',
          pattern: '^creqA',
          description: 'The payment request (NUT-18).',
        },
      },
    }),
    409: apiError.meta({ description: 'Somebody else has the name.' }),
    ...apiErrors(400, 401, 413, 500),
  },
};

/**
 * `POST /api/v2/user/username` (spec.md section 4.6). The `X-Cashu` header carries a token in the
 * request, and in a 402 the payment request (NUT-18, NUT-24).
 */
export const usernameRoutes: FastifyPluginAsync<UsernameParts> = async (app, parts) => {
  const { purchaseUsername, recipients } = parts;
  app
    .withTypeProvider<ZodTypeProvider>()
    .post(
      '/api/v2/user/username',
      { schema, config: { countedAs: 'purchases' } },
      async (request, reply) => {
        const token = request.headers['x-cashu']?.trim() || null;
        const answer = await purchaseUsername.purchase(
          request.pubkey,
          request.body.username,
          token,
        );
        if (answer.outcome === 'payment_required') {
          reply.header('x-cashu', answer.request);
          throw new Refusal('payment_required', answer.message);
        }
        reply.code(201);
        return renderUser(await recipients.byPubkey(request.pubkey));
      },
    );
};
