import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { Recipients } from '../usecases/recipients.ts';

const query = z.object({ name: z.string({ error: 'must be given once' }).optional() });

/** `GET /.well-known/nostr.json`: the key behind a purchased name (NIP-05). */
export const nip05Routes: FastifyPluginAsync<{ recipients: Recipients }> = async (
  app,
  { recipients },
) => {
  app
    .withTypeProvider<ZodTypeProvider>()
    .get('/.well-known/nostr.json', { schema: { querystring: query } }, async (request) => {
      const { name } = request.query;
      const owner = name === undefined ? null : await recipients.byName(name);
      return {
        names: owner?.name == null ? {} : { [owner.name]: owner.pubkey },
        relays: {},
      };
    });
};
