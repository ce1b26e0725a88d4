import type { Dice } from '../../src/demo/test-mint/dice.ts';

/** What one payer is going to do. Times in milliseconds. */
export interface PlannedPayment {
  /** From 1; the same payment in every run with the same seed. */
  number: number;
  /** Index of the recipient. */
  recipient: number;
  amountSat: number;
  /** When the payer asks for an invoice, from the start of the storm. */
  askAtMs: number;
  /** How long the payer takes to pay it; null: never pays. */
  payAfterMs: number | null;
  /** How long after the payment the recipient's wallet collects it; null: not in this run. */
  issueAfterMs: number | null;
}

/** For so many payments one more invoice is asked for and never paid. */
const PAYMENTS_PER_UNPAID_INVOICE = 6;

const MAX_AMOUNT_SAT = 5_000;

/** Who pays at once pays before the watcher has looked once. */
const AT_ONCE_SHARE = 0.35;
const LATE_SHARE = 0.2;
const SOON_MS = 8_000;

/** Late is after the invoice of a short-lived quote has expired (`mints.ts`). */
const LATE_FROM_MS = 9_000;
const LATE_UNTIL_MS = 16_000;

const COLLECTED_SHARE = 0.5;
const COLLECTED_WITHIN_MS = 10_000;

/**
 * Some recipients are paid far more often than others: the first one gets more than a page of the
 * list, and several payments in one second.
 */
const RECIPIENT_SKEW = 3;

/** Plans every payment of a run, and some invoices that are never paid. */
export function planPayments(
  dice: Dice,
  size: { payments: number; recipients: number; stormMs: number },
): PlannedPayment[] {
  const { payments, recipients, stormMs } = size;
  const invoices = payments + Math.ceil(payments / PAYMENTS_PER_UNPAID_INVOICE);
  const unpaid = new Set(
    dice.shuffled(Array.from({ length: invoices }, (_, i) => i + 1)).slice(payments),
  );
  return Array.from({ length: invoices }, (_, index) => {
    const number = index + 1;
    // Each payment has its own dice, so that it is the same whatever the number of payments.
    const own = dice.fork(`payment ${number}`);
    return {
      number,
      recipient: Math.floor(recipients * own.roll() ** RECIPIENT_SKEW),
      amountSat: 1 + Math.floor(own.roll() * MAX_AMOUNT_SAT),
      askAtMs: own.roll() * stormMs,
      payAfterMs: unpaid.has(number) ? null : patience(own),
      issueAfterMs: own.happens(COLLECTED_SHARE) ? own.roll() * COLLECTED_WITHIN_MS : null,
    };
  });
}

function patience(dice: Dice): number {
  const fate = dice.roll();
  if (fate < AT_ONCE_SHARE) {
    return 0;
  }
  return fate < 1 - LATE_SHARE
    ? dice.between(0, SOON_MS)
    : dice.between(LATE_FROM_MS, LATE_UNTIL_MS);
}
