/** The checks of a zaps storm. Each counts as one test. */
export const CHECKS = {
  invoices: 'every payer gets an invoice within 60 s of asking, and can pay it at the mint',
  arrived: 'every live relay has the receipt of every paid zap that named it',
  single: 'a payment has one receipt, the same at every relay',
  nothingElse: 'no relay has a receipt of anything else, or one that it should not have',
  facts: 'a receipt agrees with the zap request and the list, and its signature is valid',
  outbox: 'every accepted receipt is recorded, and only deliveries to the dead relay are left',
  dialect: 'every response has the format of its API',
  processes: 'no process logs an error or exits on its own',
  secrets: 'no log contains the zap key',
  storm: 'the faults happened, and the kills interrupted deliveries',
} as const;

export type CheckName = keyof typeof CHECKS;
