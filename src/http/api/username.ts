import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { Refusal } from '../../domain/errors.ts';
import type { PurchaseUsername } from '../../usecases/purchase-username.ts';
import type { Recipients } from '../../usecases/recipients.ts';
import { jsonBody } from '../schemas.ts';
import { userAnswer } from './user-answer.ts';

interface UsernameParts {
  recipients: Recipients;
  purchaseUsername: PurchaseUsername;
}

const body = jsonBody({ username: z.string({ error: 'must be a string' }) });

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
      { schema: { body }, config: { countedAs: 'purchases' } },
      async (request, reply) => {
        const token = tokenIn(request.headers['x-cashu']);
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
        return userAnswer(await recipients.byPubkey(request.pubkey));
      },
    );
};

/** An empty header pays for nothing; one that was given twice is no token, and is told so. */
function tokenIn(header: string | string[] | undefined): string | null {
  const text = [header ?? ''].flat().join(', ').trim();
  return text === '' ? null : text;
}
