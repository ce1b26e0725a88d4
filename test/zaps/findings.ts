/** What must be true of a storm of zaps: each is one test. */
export const CHECKS = {
  invoices: 'every payer gets an invoice that can be paid at the mint',
  arrived: 'every relay that is alive has the receipt of every zap that was paid and named it',
  single: 'a payment has one receipt, the same at every relay',
  nothingElse: 'no relay has a receipt of anything else, or one that was not for it',
  facts: 'a receipt says what the zap request and the list say, and its signature is right',
  outbox: 'what a relay took is written down, and nothing is left but for the dead one',
  dialect: 'every answer was in its dialect',
  processes: 'no process logged an error, or ended by itself',
  secrets: 'no log has the zap key',
  storm: 'the faults did happen, and the kills hit receipts on their way',
} as const;

export type CheckName = keyof typeof CHECKS;
