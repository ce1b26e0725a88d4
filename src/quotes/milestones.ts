import type { Log } from '../log.ts';

/** The log message of each milestone of a payment, in about this order. */
const MILESTONES = {
  invoice_made: 'an invoice was made',
  paid: 'a payment was recorded: it is in the list of its recipient',
  told: 'sockets of the recipient were sent an update',
  collected: 'a payment was collected',
  expired: 'an invoice ended unpaid, for good',
  receipt_signed: 'the receipt of a zap was signed',
  receipt_delivered: 'a relay took the receipt of a zap',
} as const;

export type Milestone = keyof typeof MILESTONES;

/**
 * Logs a milestone after it is committed. All lines of a payment have its payment hash, which is not secret; `nutpost
 * trace` finds the payment by it, too.
 *
 * @param paymentHash hex; null if the invoice of an older row is unreadable
 * @param detail no quote id, and no text of a payer
 */
export function logMilestone(
  log: Log,
  milestone: Milestone,
  paymentHash: string | null,
  detail: Record<string, string | number | boolean>,
): void {
  log.info({ milestone, paymentHash, ...detail }, MILESTONES[milestone]);
}
