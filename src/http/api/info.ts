import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { PurchaseUsername } from '../../usernames/purchase-username.ts';
import { apiErrors, success, wholeNumber } from '../schemas.ts';

/** Wallets ask for it at each start; it changes with the configuration only. */
const CACHE_CONTROL = 'public, max-age=300';

const usernameOffer = z.discriminatedUnion('enabled', [
  z.object({ enabled: z.literal(false) }),
  z.object({
    enabled: z.literal(true),
    payment: z
      .object({
        amount: wholeNumber.describe('0: names are free.'),
        unit: z.literal('sat'),
        mints: z.array(z.url()).min(1),
      })
      .meta({
        id: 'UsernamePaymentTerms',
        description: 'Advisory: the payment request of a 402 is what counts.',
      }),
  }),
]);

const providerInfo = z
  .object({
    version: z.literal(2).meta({ type: 'integer' }),
    features: z.object({ username: usernameOffer }),
  })
  .meta({ id: 'ProviderInfo', description: 'What this provider offers.' });

const schema = {
  operationId: 'getInfo',
  tags: ['Wallets'],
  summary: 'What this provider offers',
  response: {
    200: success(providerInfo).meta({
      description: 'The version of the API, and whether usernames can be bought.',
      headers: { 'Cache-Control': { const: CACHE_CONTROL } },
    }),
    ...apiErrors(),
  },
};

/** `GET /api/v2/info`: what this provider offers (spec.md section 4.1). */
export const infoRoutes: FastifyPluginAsync<{
  purchaseUsername: Pick<PurchaseUsername, 'offer'>;
}> = async (app, { purchaseUsername }) => {
  const { priceSat, mintUrl } = purchaseUsername.offer;
  const username: z.infer<typeof usernameOffer> =
    priceSat === null
      ? { enabled: false }
      : { enabled: true, payment: { amount: priceSat, unit: 'sat', mints: [mintUrl] } };
  app.withTypeProvider<ZodTypeProvider>().get('/api/v2/info', { schema }, async (_, reply) => {
    reply.header('cache-control', CACHE_CONTROL);
    return { error: false, data: { version: 2, features: { username } } } as const;
  });
};
