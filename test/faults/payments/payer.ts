import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { decodeInvoice } from '../../../src/quotes/bolt11.ts';
import { requestInvoice } from '../storm.ts';
import { sleepUnlessAborted } from '../storm-client.ts';
import type { StormObservations } from './checks.ts';
import type { IssuedInvoice, Recipient } from './expected-payments.ts';

/** Share of payments that the recipient redeems. */
const REDEEMED_SHARE = 0.5;

/** Requests an invoice until the service returns one, and records it. @returns null if there is none in time */
export async function issueInvoice(
  run: StormObservations,
  payerNumber: number,
  recipient: Recipient,
  amountSat: number,
): Promise<IssuedInvoice | null> {
  const path = `/.well-known/lnurlp/${recipient.wallet.npub}?amount=${amountSat * 1000}`;
  const invoice = await requestInvoice(run, payerNumber, path);
  if (invoice === null) {
    return null;
  }
  if (decodeInvoice(invoice.pr)?.amountMsat !== amountSat * 1000) {
    run.checkRecorder.addProblem(
      'mintState',
      `payment ${payerNumber}: the invoice has a different amount`,
    );
  }
  const issuedInvoice: IssuedInvoice = {
    number: payerNumber,
    recipient,
    amountSat,
    request: invoice.pr,
    verifyPath: new URL(invoice.verify).pathname,
    payment: null,
  };
  run.expectedPayments.invoices.push(issuedInvoice);
  return issuedInvoice;
}

/** Pays an invoice at its mint. Some recipients redeem the payment later. */
export async function payAndRedeem(
  { expectedPayments, checkRecorder, signal }: StormObservations,
  invoice: IssuedInvoice,
  random: SeededRandom,
  maxRedemptionDelayMs: number,
): Promise<void> {
  try {
    const payment = expectedPayments.pay(invoice);
    const shouldRedeem = random.chance(REDEEMED_SHARE);
    const redemptionDelayMs = random.between(0, maxRedemptionDelayMs);
    if (shouldRedeem && (await sleepUnlessAborted(redemptionDelayMs, signal))) {
      payment.redeemedAtMs = Date.now();
      await invoice.recipient.mint.markIssued(payment.quoteId);
    }
  } catch {
    checkRecorder.addProblem(
      'invoices',
      `payment ${invoice.number}: the mint does not know its invoice`,
    );
  }
}
