import type { FastifyPluginAsync } from 'fastify';
import type { PurchaseUsername, UsernameOffer } from '../../usecases/purchase-username.ts';

/** `GET /api/v2/info`: what this provider offers (spec.md section 4.1). */
export const infoRoutes: FastifyPluginAsync<{
  purchaseUsername: Pick<PurchaseUsername, 'offer'>;
}> = async (app, { purchaseUsername }) => {
  const username = usernameFeature(purchaseUsername.offer);
  app.get('/api/v2/info', async (_request, reply) => {
    reply.header('cache-control', 'public, max-age=300');
    return { error: false, data: { version: 2, features: { username } } };
  });
};

function usernameFeature({ priceSat, mintUrl }: UsernameOffer) {
  return priceSat === null
    ? { enabled: false }
    : { enabled: true, payment: { amount: priceSat, unit: 'sat', mints: [mintUrl] } };
}
