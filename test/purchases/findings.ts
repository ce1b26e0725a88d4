/** The checks of a purchases storm. Each counts as one test. */
export const CHECKS = {
  swallowed: 'every redeemed token bought a name, and the key that paid has that name',
  unpaid: 'every name was paid for by the key that has it',
  single: 'no key has two names, no name has two owners, and all processes agree',
  unspent: 'a buyer that did not get the name can still spend the token',
  explained: 'every refusal of a token has its reason, and every contested name has one winner',
  kept: 'no final answer contradicts another one or the final state',
  answered: 'every buyer that kept asking got a final answer',
  treasury:
    'the treasury holds what was redeemed minus the mint fees, and the mint accepts all of it',
  settled: 'no purchase is left open',
  dialect: 'every response has the format of its API',
  processes: 'no process logs an error or exits on its own',
  secrets: 'no log contains a secret of a token',
  storm: 'the faults happened, and the kills interrupted purchases',
} as const;

export type CheckName = keyof typeof CHECKS;
