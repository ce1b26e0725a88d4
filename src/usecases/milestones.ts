import type { Log } from '../log.ts';

/** What happens to a payment, in about this order, and how the log says it. */
const MILESTONES = {
  invoice_made: 'an invoice was made',
  paid: 'a payment was recorded: it is in the list of its recipient',
  told: 'sockets of the recipient were sent an update',
  collected: 'a payment was collected',
  expired: 'an invoice ended unpaid, for good',
  receipt_signed: 'the receipt of a zap was signed',
  receipt_delivered: 'a relay took the receipt of a zap',
} as const;

/** A step on the way of a payment that its recipient, or whoever asks for it, would want to know of. */
export type Milestone = keyof typeof MILESTONES;

/**
 * Writes the one line of the log that tells of a milestone, once it is committed. All lines of a payment
 * have its payment hash, by which `nutpost trace` finds it as well; that is in the invoice, and no secret.
 *
 * @param paymentHash hex; null where the invoice of an older row could not be read
 * @param detail what else is worth to be told; no quote id, and no words of a payer
 */
export function logMilestone(
  log: Log,
  milestone: Milestone,
  paymentHash: string | null,
  detail: Record<string, string | number | boolean>,
): void {
  log.info({ milestone, paymentHash, ...detail }, MILESTONES[milestone]);
}
