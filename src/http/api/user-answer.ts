import type { Recipient } from '../../usecases/recipients.ts';

/** A user as the API answers it (spec.md section 2): a name only where there is one. */
export function userAnswer(user: Recipient) {
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
