import { z } from 'zod';
import type { Routes } from '../context.ts';
import { apiErrors, nonNegativeInteger, success, successEnvelope } from '../schemas.ts';

/** The response changes only with the configuration. */
const CACHE_CONTROL = 'public, max-age=300';

const usernameFeature = z.discriminatedUnion('enabled', [
  z.object({ enabled: z.literal(false) }),
  z.object({
    enabled: z.literal(true),
    payment: z
      .object({
        amount: nonNegativeInteger.describe('0: usernames are free.'),
        unit: z.literal('sat'),
        mints: z.array(z.url()).min(1),
      })
      .meta({
        id: 'UsernamePaymentTerms',
        description: 'Advisory: the payment request of a 402 response is authoritative.',
      }),
  }),
]);

const providerInfo = z
  .object({
    version: z.literal(2).meta({ type: 'integer' }),
    features: z.object({ username: usernameFeature }),
  })
  .meta({ id: 'ProviderInfo', description: 'The features of this provider.' });

const schema = {
  operationId: 'getInfo',
  summary: 'Get the provider’s features',
  response: {
    200: successEnvelope(providerInfo).meta({
      description: 'The API version, and the price of usernames if they are for sale.',
      headers: { 'Cache-Control': { const: CACHE_CONTROL } },
    }),
    ...apiErrors(),
  },
};

export const infoRoutes: Routes = async (app, { usernames }) => {
  const { priceSat, mintUrl } = usernames.policy;
  const username: z.infer<typeof usernameFeature> =
    priceSat === null
      ? { enabled: false }
      : { enabled: true, payment: { amount: priceSat, unit: 'sat', mints: [mintUrl] } };
  app.get('/api/v2/info', { schema }, async (_, reply) => {
    reply.header('cache-control', CACHE_CONTROL);
    return success({ version: 2 as const, features: { username } });
  });
};
