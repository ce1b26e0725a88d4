import { z } from 'zod';
import type { Recipient } from '../../usecases/recipients.ts';
import { hexKey, success } from '../schemas.ts';

const userResource = z
  .object({
    pubkey: hexKey,
    name: z.string().optional().describe('The username, where there is one.'),
    mintUrl: z.url().describe('Where the next payments are received.'),
    lockQuote: z.boolean().describe('Whether the next quotes are locked to this key (NUT-20).'),
  })
  .meta({ id: 'User', description: 'A user’s settings.' });

/** The answer that tells of a user (spec.md section 4.3). */
export const userResponse = success(z.object({ user: userResource })).meta({
  description: 'The user as he is now.',
});

/** A user as the API answers it (spec.md section 2): a name only where there is one. */
export function userAnswer(user: Recipient): z.infer<typeof userResponse> {
  return {
    error: false,
    data: {
      user: {
        pubkey: user.pubkey,
        ...(user.name === null ? {} : { name: user.name }),
        mintUrl: user.mintUrl,
        lockQuote: user.lockQuotes,
      },
    },
  };
}
