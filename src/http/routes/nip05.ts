import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { Recipients } from '../../recipients/recipients.ts';
import type { RecipientRelays } from '../../zaps/recipient-relays.ts';
import { apiError, apiErrors, hexKey } from '../schemas.ts';

interface Nip05Parts {
  recipients: Recipients;
  recipientRelays: RecipientRelays;
}

const names = z
  .object({
    names: z.record(z.string(), hexKey).describe('Keys by name.'),
    relays: z.record(hexKey, z.array(z.url())).describe('Relays by key.'),
  })
  .meta({ id: 'Nip05Response', description: 'Who has the name (NIP-05).' });

const schema = {
  operationId: 'lookUpName',
  tags: ['Payers'],
  summary: 'The key behind a username',
  description:
    'Clients look at the body before they use it: that a lookup failed is said with 200 too.',
  querystring: z.object({
    name: z
      .string({ error: 'must be given once' })
      .optional()
      .describe('A username. Without it, or where nobody has it, the answer is empty.'),
  }),
  response: {
    200: z
      .union([names, apiError])
      .meta({ description: 'The key and its relays, or that the lookup failed.' }),
    ...apiErrors(400),
  },
};

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
    .get('/.well-known/nostr.json', { schema }, async (request) => {
      const { name } = request.query;
      const owner = name === undefined ? null : await recipients.byName(name);
      if (owner?.name == null) {
        return { names: {}, relays: {} };
      }
      const relays = await recipientRelays.of(owner.pubkey);
      return {
        names: { [owner.name]: owner.pubkey },
        relays: relays.length === 0 ? {} : { [owner.pubkey]: [...relays] },
      };
    });
};
