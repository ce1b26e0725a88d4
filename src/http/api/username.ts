import { z } from 'zod';
import { RequestError } from '../../errors.ts';
import { toAddressGroup, toAddressPrefixes } from '../../net/address-prefixes.ts';
import { MAX_USERNAME_LENGTH, MIN_USERNAME_LENGTH } from '../../recipients/lightning-address.ts';
import { checkUsernameAvailability, registerUsername } from '../../usernames/register-username.ts';
import type { Routes } from '../context.ts';
import {
  apiError,
  apiErrors,
  jsonBody,
  renderUser,
  success,
  successEnvelope,
  userResponse,
} from '../schemas.ts';

const nameAvailability = z
  .object({
    name: z.string().optional().describe('The name in lower case; absent if it is invalid.'),
    available: z.boolean(),
    reason: z
      .enum(['invalid', 'reserved', 'taken', 'not_for_sale'])
      .optional()
      .describe('`taken` includes names that are held for a purchase or for their previous owner.'),
  })
  .meta({ id: 'NameAvailability', description: 'Whether a username can be bought.' });

const checkSchema = {
  operationId: 'checkName',
  summary: 'Check whether a username is available',
  description:
    'For a check while the user types. The response does not depend on the user: a name that the user ' +
    'already has is taken. An available name is not held for anyone.',
  params: z.object({ name: z.string().describe('A username, in upper or lower case.') }),
  response: {
    200: successEnvelope(nameAvailability).meta({
      description: 'Whether the name is available, also if it is invalid.',
      headers: { 'Cache-Control': { const: 'no-store' } },
    }),
    ...apiErrors(400, 500, 503),
  },
};

/** `GET /api/v2/names/{name}` is public, because an attempt to buy the name reveals as much. */
export const nameRoutes: Routes = async (app, { usernames }) => {
  const config = { rateLimitCategory: 'nameLookups' } as const;
  app.get('/api/v2/names/:name', { schema: checkSchema, config }, async (request, reply) => {
    const { name, obstacle } = await checkUsernameAvailability(usernames, request.params.name);
    reply.header('cache-control', 'no-store');
    return success({
      name: name ?? undefined,
      available: obstacle === null,
      reason: obstacle ?? undefined,
    });
  });
};

const buySchema = {
  operationId: 'buyUsername',
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
        'X-Cashu': { type: 'string', pattern: '^creqA', description: 'A NUT-18 request.' },
      },
    }),
    409: apiError.meta({ description: 'The name is taken, or being bought with another token.' }),
    ...apiErrors(400, 401, 413, 500, 503),
  },
};

export const usernameRoutes: Routes = async (app, context) => {
  const { recipients, usernames } = context;
  const config = { rateLimitCategory: 'usernamePurchases' } as const;
  app.post('/api/v2/user/username', { schema: buySchema, config }, async (request, reply) => {
    const { pubkey, body, headers } = request;
    const result = await registerUsername(usernames, {
      pubkey,
      username: body.username,
      token: headers['x-cashu']?.trim() || null,
      addressGroup: toAddressGroup(toAddressPrefixes(request.ip)),
    });
    if (result.outcome === 'payment_required') {
      reply.header('x-cashu', result.paymentRequest);
      throw new RequestError('payment_required', result.message);
    }
    reply.code(201);
    return renderUser(await recipients.getByPubkey(pubkey));
  });
};
