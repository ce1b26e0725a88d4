import type { Dice } from '../../../demo/test-mint/dice.ts';

/** What one payer does. Times in milliseconds. */
export interface PlannedPayment {
  /** From 1; the same payment in every run with the same seed. */
  number: number;
  /** Index of the recipient. */
  recipient: number;
  amountSat: number;
  /** When the payer asks for an invoice, from the start of the storm. */
  askAtMs: number;
  /** How long the payer takes to pay; null: never pays. */
  payAfterMs: number | null;
  /** When the recipient's wallet collects the payment; null: not in this run. */
  issueAfterMs: number | null;
}

/** One more invoice for each six payments is never paid. */
const PAYMENTS_PER_UNPAID_INVOICE = 6;

const MAX_AMOUNT_SAT = 5_000;

/** Payments at once come before the watcher has polled. */
const AT_ONCE_SHARE = 0.35;
const LATE_SHARE = 0.2;
const SOON_MS = 8_000;

/** After the invoice of a short-lived quote has expired (`mints.ts`). */
const LATE_FROM_MS = 9_000;
const LATE_UNTIL_MS = 16_000;

const COLLECTED_SHARE = 0.5;
const COLLECTED_WITHIN_MS = 10_000;

/** The first recipient is paid more often: more than a page of the list, several times a second. */
const RECIPIENT_SKEW = 3;

/** Plans every payment of a run, and some invoices that are never paid. */
export function planPayments(
  dice: Dice,
  { payments, recipients, stormMs }: { payments: number; recipients: number; stormMs: number },
): PlannedPayment[] {
  const invoices = payments + Math.ceil(payments / PAYMENTS_PER_UNPAID_INVOICE);
  const numbers = Array.from({ length: invoices }, (_, index) => index + 1);
  const unpaid = new Set(dice.shuffled(numbers).slice(payments));
  return numbers.map((number) => {
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
