/** What must be true of a storm of purchases: each is one test. */
export const CHECKS = {
  swallowed: 'every token that was redeemed bought a name, and the key that gave it has that name',
  unpaid: 'every name was paid for by the key that has it',
  single: 'no key has two names, no name has two owners, and all processes say the same',
  unspent: 'whoever did not get the name can still spend the token',
  explained: 'every refusal of a token has its reason, and every contested name has its winner',
  kept: 'no final answer is contradicted by another, or by how things are at the end',
  answered: 'every buyer who went on asking was told how it ended',
  treasury: 'the treasury is what was redeemed less the mint’s fees, and the mint takes all of it',
  settled: 'no purchase is left open',
  dialect: 'every answer was in its dialect',
  processes: 'no process logged an error, or ended by itself',
  secrets: 'no log has a secret of a token',
  storm: 'the faults did happen, and the kills hit purchases under way',
} as const;

export type CheckName = keyof typeof CHECKS;
