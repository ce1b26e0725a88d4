import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { RequestError } from '../../errors.ts';
import type { OperatorContext } from '../operator-context.ts';
import { jsonBody, success } from '../schemas.ts';

const commandBody = jsonBody({ argv: z.array(z.string().max(2_000)).min(1).max(20) });

/** For the operator page, so not part of the documented API. Registered only with OPERATOR_KEYS. */
export const operatorRoutes: FastifyPluginAsyncZod<OperatorContext> = async (
  app,
  { keys, runCommand },
) => {
  app.addHook('onRequest', async ({ pubkey }) => {
    if (!keys.includes(pubkey)) {
      throw new RequestError('not_found', 'This key is not in OPERATOR_KEYS.');
    }
  });

  const config = { rateLimitCategory: 'settingChanges' } as const;
  const schema = { body: commandBody };
  app.post('/api/v2/operator/commands', { config, schema }, async ({ pubkey, body }) => {
    const result = await runCommand(pubkey, body.argv);
    if (result === null) {
      throw new RequestError('invalid', 'argv: the page does not offer this command.');
    }
    return success(result);
  });
};
