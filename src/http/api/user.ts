import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { ChangeSettings } from '../../recipients/change-settings.ts';
import type { Recipient, Recipients } from '../../recipients/recipients.ts';
import { apiErrors, hexKey, jsonBody, success } from '../schemas.ts';

interface UserParts {
  recipients: Recipients;
  changeSettings: ChangeSettings;
}

const userResource = z
  .object({
    pubkey: hexKey,
    name: z.string().optional().describe('The username, where there is one.'),
    mintUrl: z.url().describe('Where the next payments are received.'),
    lockQuote: z.boolean().describe('Whether the next quotes are locked to this key (NUT-20).'),
  })
  .meta({ id: 'User', description: 'A user’s settings.' });

export const userResponse = success(z.object({ user: userResource })).meta({
  description: 'The user as he is now.',
});

/** Renders a user (spec.md section 2); without a name if there is none. */
export function renderUser(user: Recipient): z.infer<typeof userResponse> {
  return {
    error: false,
    data: {
      user: {
        pubkey: user.pubkey,
        ...(user.name === null ? {} : { name: user.name }),
        mintUrl: user.mintUrl,
        lockQuote: user.lockQuotes,
      },
    },
  };
}

const getUser = {
  operationId: 'getUser',
  tags: ['Wallets'],
  summary: 'The user’s settings',
  description: 'Who never saved any is told the operator’s defaults.',
  response: { 200: userResponse, ...apiErrors(401, 500) },
};

const chooseMint = {
  operationId: 'chooseMint',
  tags: ['Wallets'],
  summary: 'Choose the mint of the next payments',
  description:
    'Quotes stay with the mint that made them. A mint is refused that does not answer, cannot ' +
    'receive sats over Lightning, or cannot lock quotes while the user wants that.',
  body: jsonBody({ mint_url: z.string({ error: 'must be a string' }).meta({ format: 'uri' }) }),
  response: { 200: userResponse, ...apiErrors(400, 401, 413, 500) },
};

const setLocking = {
  operationId: 'setLocking',
  tags: ['Wallets'],
  summary: 'Have the next quotes locked, or not',
  description:
    'Only the key’s owner can mint a locked quote (NUT-20). Refused where the mint cannot lock.',
  body: jsonBody({ lockQuotes: z.boolean({ error: 'must be true or false' }) }),
  response: { 200: userResponse, ...apiErrors(400, 401, 413, 500) },
};

/** The user's own settings (spec.md sections 4.3 to 4.5). */
export const userRoutes: FastifyPluginAsync<UserParts> = async (app, parts) => {
  const routes = app.withTypeProvider<ZodTypeProvider>();

  routes.get('/api/v2/user/info', { schema: getUser }, async (request) =>
    renderUser(await parts.recipients.byPubkey(request.pubkey)),
  );

  routes.patch(
    '/api/v2/user/mint',
    { schema: chooseMint, config: { countedAs: 'changes' } },
    async (request) =>
      renderUser(await parts.changeSettings.chooseMint(request.pubkey, request.body.mint_url)),
  );

  routes.patch(
    '/api/v2/user/lock',
    { schema: setLocking, config: { countedAs: 'changes' } },
    async (request) =>
      renderUser(await parts.changeSettings.setLocking(request.pubkey, request.body.lockQuotes)),
  );
};
