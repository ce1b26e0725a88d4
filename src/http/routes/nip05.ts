import { z } from 'zod';
import type { Routes } from '../context.ts';
import { apiError, apiErrors, hexPubkey } from '../schemas.ts';

const nip05Response = z
  .object({
    names: z.record(z.string(), hexPubkey).describe('Public keys by name.'),
    relays: z.record(hexPubkey, z.array(z.url())).describe('Relays by key.'),
  })
  .meta({ id: 'Nip05Response', description: 'The owner of a username (NIP-05).' });

const schema = {
  operationId: 'lookUpName',
  summary: 'Look up a username',
  description:
    'If the server fails, the status is also 200, so clients must inspect the body before they use it.',
  querystring: z.object({
    name: z
      .string({ error: 'must be given once' })
      .optional()
      .describe('A username. If it is missing or unknown, the response is empty.'),
  }),
  response: {
    200: z
      .union([nip05Response, apiError])
      .meta({ description: 'The public key and its relays, or the error of a failed lookup.' }),
    ...apiErrors(400),
  },
};

export const nip05Routes: Routes = async (app, { recipients, recipientRelays }) => {
  app.get('/.well-known/nostr.json', { schema }, async (request) => {
    const { name } = request.query;
    const recipient = name === undefined ? null : await recipients.findByName(name);
    if (!recipient?.name) {
      return { names: {}, relays: {} };
    }
    const { relays } = await recipientRelays.find(recipient.pubkey);
    return {
      names: { [recipient.name]: recipient.pubkey },
      relays: relays.length === 0 ? {} : { [recipient.pubkey]: [...relays] },
    };
  });
};
