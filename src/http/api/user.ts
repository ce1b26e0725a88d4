import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { ChangeSettings } from '../../usecases/change-settings.ts';
import type { Recipients } from '../../usecases/recipients.ts';
import { jsonBody } from '../schemas.ts';
import { userAnswer } from './user-answer.ts';

interface UserParts {
  recipients: Recipients;
  changeSettings: ChangeSettings;
}

const mintBody = jsonBody({ mint_url: z.string({ error: 'must be a string' }) });
const lockBody = jsonBody({ lockQuotes: z.boolean({ error: 'must be true or false' }) });

/** The user's own settings (spec.md sections 4.3 to 4.5). */
export const userRoutes: FastifyPluginAsync<UserParts> = async (app, parts) => {
  const routes = app.withTypeProvider<ZodTypeProvider>();

  routes.get('/api/v2/user/info', async (request) =>
    userAnswer(await parts.recipients.byPubkey(request.pubkey)),
  );

  routes.patch(
    '/api/v2/user/mint',
    { schema: { body: mintBody }, config: { countedAs: 'changes' } },
    async (request) =>
      userAnswer(await parts.changeSettings.chooseMint(request.pubkey, request.body.mint_url)),
  );

  routes.patch(
    '/api/v2/user/lock',
    { schema: { body: lockBody }, config: { countedAs: 'changes' } },
    async (request) =>
      userAnswer(await parts.changeSettings.setLocking(request.pubkey, request.body.lockQuotes)),
  );
};
