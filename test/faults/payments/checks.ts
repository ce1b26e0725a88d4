import type { Storm } from '../storm.ts';
import {
  describePayment,
  type ExpectedPayments,
  type Payment,
  type Recipient,
} from './expected-payments.ts';
import type { ListedQuote, ListReader } from './list-reader.ts';
import type { SocketSession } from './wallet-sockets.ts';

export const CHECKS = {
  listedOnce: "each recipient's list has exactly the recipient's payments, each of them once",
  listedInTime: 'a payment is listed within 120 s at p99',
  notEarly: 'no payment is listed or sent before its mint received it, or to another recipient',
  mintState: 'invoices and lists match the state at the mint',
  order: 'lists are sorted newest first, and the time of a listed payment does not change',
  updates: 'every open socket receives an update when a payment arrives and when it is redeemed',
  verify: 'verify URLs report exactly the paid invoices as settled',
};

/** The service sends the update right after it lists the payment, but a busy machine may be slow. */
export const MAX_UPDATE_DELAY_MS = 3_000;

export interface StormObservations extends Storm {
  expectedPayments: ExpectedPayments;
  listReader: ListReader;
}

/** Whether a list has every payment of its recipient, each in the same state as at the mint. */
export function isListComplete(
  expectedPayments: ExpectedPayments,
  recipient: Recipient,
  quotes: readonly ListedQuote[],
): boolean {
  const states = new Map(quotes.map(({ quoteId, state }) => [quoteId, state]));
  return expectedPayments
    .paymentsOf(recipient)
    .every(({ quoteId }) => states.get(quoteId) === expectedPayments.mints.quote(quoteId)?.state);
}

/** Compares a recipient's complete list with the expected payments. */
export function checkList(
  { expectedPayments, checkResults }: StormObservations,
  recipient: Recipient,
  quotes: readonly ListedQuote[],
): void {
  const payments = expectedPayments.paymentsOf(recipient);
  for (const payment of payments) {
    const listed = quotes.filter(({ quoteId }) => quoteId === payment.quoteId);
    if (listed.length !== 1) {
      const problem = `${describePayment(payment)} is listed ${listed.length} times`;
      checkResults.addProblem('listedOnce', problem);
    }
    for (const problem of listed.flatMap((quote) =>
      findWrongFields(expectedPayments, payment, quote),
    )) {
      checkResults.addProblem('mintState', `${describePayment(payment)}: ${problem}`);
    }
  }
  if (quotes.length !== payments.length) {
    const problem = `${quotes.length} quotes are listed, ${payments.length} were paid`;
    checkResults.addProblem('listedOnce', `recipient ${recipient.index}: ${problem}`);
  }
  for (const [index, { paidAt }] of quotes.entries()) {
    if (paidAt > (quotes[index - 1]?.paidAt ?? paidAt)) {
      checkResults.addProblem(
        'order',
        `recipient ${recipient.index}: quote ${index} is newer than the one before it`,
      );
    }
  }
}

function findWrongFields(
  expectedPayments: ExpectedPayments,
  payment: Payment,
  listed: ListedQuote,
): string[] {
  const { recipient, amountSat, request } = payment.invoice;
  const atMint = expectedPayments.mints.quote(payment.quoteId);
  const expected = {
    state: atMint?.state,
    amount: amountSat,
    request,
    mintUrl: recipient.mint.url,
    locked: atMint?.pubkey !== null,
    expiresAt: atMint?.expiresAt,
  };
  const wrong = (Object.keys(expected) as (keyof typeof expected)[])
    .filter((field) => listed[field] !== expected[field])
    .map((field) => `${field} is listed as ${listed[field]}, the mint has ${expected[field]}`);
  const isEarly = listed.paidAt < Math.floor(payment.paidAtMs / 1000);
  return [...wrong, ...(isEarly ? [`paidAt ${listed.paidAt} is before the payment`] : [])];
}

/** Checks that sockets received their updates. @returns the number of expected updates */
export function checkUpdates(
  observations: StormObservations,
  sessions: readonly SocketSession[],
): number {
  let sum = 0;
  for (const session of sessions) {
    for (const payment of observations.expectedPayments.paymentsOf(session.recipient)) {
      const expected = countExpectedUpdates(observations, session, payment);
      const received = session.updates.get(payment.quoteId) ?? 0;
      sum += expected;
      if (received < expected) {
        const problem = `${describePayment(payment)}: ${received} updates, not ${expected}`;
        observations.checkResults.addProblem('updates', problem);
      }
    }
  }
  return sum;
}

/**
 * A socket that was open from before the payment until some time after it was listed gets an update. If the
 * socket is still open and the quote was issued after it was listed, it gets a second one.
 */
function countExpectedUpdates(
  { expectedPayments, listReader }: StormObservations,
  session: SocketSession,
  { quoteId, paidAtMs }: Payment,
) {
  const listing = listReader.firstListing(quoteId);
  if (listing === undefined || session.openedAtMs >= paidAtMs) {
    return 0;
  }
  if (session.closedAtMs !== null) {
    return listing.firstListedAtMs + MAX_UPDATE_DELAY_MS < session.closedAtMs ? 1 : 0;
  }
  const isIssued = expectedPayments.mints.quote(quoteId)?.state === 'ISSUED';
  return isIssued && listing.wasListedBeforeIssued ? 2 : 1;
}
