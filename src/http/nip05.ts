import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { RecipientRelays } from '../usecases/recipient-relays.ts';
import type { Recipients } from '../usecases/recipients.ts';

interface Nip05Parts {
  recipients: Recipients;
  recipientRelays: RecipientRelays;
}

const query = z.object({ name: z.string({ error: 'must be given once' }).optional() });

/**
 * `GET /.well-known/nostr.json`: the key behind a purchased name, and the relays where its owner is
 * found, where they are known (NIP-05).
 */
export const nip05Routes: FastifyPluginAsync<Nip05Parts> = async (
  app,
  { recipients, recipientRelays },
) => {
  app
    .withTypeProvider<ZodTypeProvider>()
    .get('/.well-known/nostr.json', { schema: { querystring: query } }, async (request) => {
      const { name } = request.query;
      const owner = name === undefined ? null : await recipients.byName(name);
      if (owner?.name == null) {
        return { names: {}, relays: {} };
      }
      const relays = await recipientRelays.of(owner.pubkey);
      return {
        names: { [owner.name]: owner.pubkey },
        relays: relays.length === 0 ? {} : { [owner.pubkey]: relays },
      };
    });
};
