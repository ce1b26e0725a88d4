import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { Refusal } from '../domain/errors.ts';
import type { Store } from '../store/store.ts';

const params = z.object({ token: z.string() });

const TOKEN = /^[0-9a-f]{64}$/;

/** `GET /lnurl/verify/{token}`: whether one invoice was paid (LUD-21). Never asks a mint. */
export const verifyRoutes: FastifyPluginAsync<{ store: Pick<Store, 'quotes'> }> = async (
  app,
  { store },
) => {
  app
    .withTypeProvider<ZodTypeProvider>()
    .get('/lnurl/verify/:token', { schema: { params } }, async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { token } = request.params;
      const quote = TOKEN.test(token) ? await store.quotes.findByVerifyToken(token) : null;
      if (quote === null) {
        throw new Refusal('invalid', 'Not found');
      }
      return {
        status: 'OK',
        settled: quote.state === 'PAID' || quote.state === 'ISSUED',
        preimage: null,
        pr: quote.request,
      };
    });
};
