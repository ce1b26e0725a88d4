import type { Dice } from '../../../demo/test-mint/dice.ts';

/** What one payer does. */
export interface PlannedZap {
  /** From 1; the same zap in every run with the same seed. */
  number: number;
  /** Index of the recipient. */
  recipient: number;
  amountSat: number;
  /** False: an ordinary payment, without a zap request. */
  isZap: boolean;
  /** How long the payer takes to pay, in milliseconds; null: never pays. */
  payAfterMs: number | null;
  /** Indexes of the relays that the zap request names. */
  relays: number[];
}

const MAX_AMOUNT_SAT = 5_000;
const ORDINARY_SHARE = 0.08;
const UNPAID_SHARE = 0.12;
const LONGEST_PATIENCE_MS = 1_000;

/** Plans a payment; each has its own dice, so that it does not depend on the others. */
export function planZap(
  dice: Dice,
  number: number,
  size: { recipients: number; relays: number },
): PlannedZap {
  const own = dice.fork(`zap ${number}`);
  const relays = Array.from({ length: size.relays }, (_, index) => index);
  return {
    number,
    recipient: Math.floor(own.roll() * size.recipients),
    amountSat: 1 + Math.floor(own.roll() * MAX_AMOUNT_SAT),
    // One of each comes first, so that none is missing.
    isZap: number !== 1 && !own.happens(ORDINARY_SHARE),
    payAfterMs:
      number === 2 || own.happens(UNPAID_SHARE) ? null : own.between(0, LONGEST_PATIENCE_MS),
    relays: own.shuffled(relays).slice(0, 1 + Math.floor(own.roll() * size.relays)),
  };
}
