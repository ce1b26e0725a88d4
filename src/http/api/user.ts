import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { RecipientDirectory } from '../../recipients/recipient-directory.ts';
import type { SettingsUpdater } from '../../recipients/settings-updater.ts';
import { apiError, errorResponses, jsonBody, renderUser, userResponse } from '../schemas.ts';

const getUserSchema = {
  operationId: 'getUser',
  tags: ['Wallets'],
  summary: 'Get the user’s settings',
  description: 'Returns the operator’s defaults if the user has saved no settings.',
  response: { 200: userResponse, ...errorResponses(apiError, 401, 500) },
};

const chooseMintSchema = {
  operationId: 'chooseMint',
  tags: ['Wallets'],
  summary: 'Choose the mint of future payments',
  description:
    'Existing quotes stay with their mint. Fails if the mint is unavailable, cannot receive sats over ' +
    'Lightning, or cannot lock quotes although the user enabled locking.',
  body: jsonBody({ mint_url: z.string({ error: 'must be a string' }).meta({ format: 'uri' }) }),
  response: { 200: userResponse, ...errorResponses(apiError, 400, 401, 413, 500) },
};

const setLockingSchema = {
  operationId: 'setLocking',
  tags: ['Wallets'],
  summary: 'Enable or disable locking of future quotes',
  description:
    'Only the owner of the key can mint a locked quote (NUT-20). Fails if the mint cannot lock quotes.',
  body: jsonBody({ lockQuotes: z.boolean({ error: 'must be true or false' }) }),
  response: { 200: userResponse, ...errorResponses(apiError, 400, 401, 413, 500) },
};

/** The user's settings (spec.md sections 4.3 to 4.5). */
export const userRoutes: FastifyPluginAsyncZod<{
  recipients: RecipientDirectory;
  settingsUpdater: SettingsUpdater;
}> = async (app, { recipients, settingsUpdater }) => {
  app.get('/api/v2/user/info', { schema: getUserSchema }, async (request) =>
    renderUser(await recipients.getByPubkey(request.pubkey)),
  );

  app.patch(
    '/api/v2/user/mint',
    { schema: chooseMintSchema, config: { rateLimitCategory: 'changes' } },
    async (request) =>
      renderUser(await settingsUpdater.setMint(request.pubkey, request.body.mint_url)),
  );

  app.patch(
    '/api/v2/user/lock',
    { schema: setLockingSchema, config: { rateLimitCategory: 'changes' } },
    async (request) =>
      renderUser(await settingsUpdater.setQuoteLocking(request.pubkey, request.body.lockQuotes)),
  );
};
