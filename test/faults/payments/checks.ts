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
  listedOnce: "each recipient's list has all payments to the recipient, each exactly once",
  listedInTime: '99 % of the payments are listed within 120 s',
  notEarly:
    'no list or update reports a payment before the mint received it, or to another recipient',
  mintState: 'invoices and listed quotes match the quotes at the mint',
  order: 'lists have the newest payment first, and the time of a listed payment does not change',
  updates: 'every open socket receives an update when a payment arrives and when it is redeemed',
  verify: 'verify URLs report paid invoices as settled, and unpaid invoices as not settled',
};

/** The service sends an update when it lists a payment. This allows for a busy machine. */
export const MAX_UPDATE_DELAY_MS = 3_000;

export interface StormObservations extends Storm {
  expectedPayments: ExpectedPayments;
  listReader: ListReader;
}

/** Returns whether a list has every payment to the recipient, each in the same state as at the mint. */
export function isListComplete(
  expectedPayments: ExpectedPayments,
  recipient: Recipient,
  quotes: readonly ListedQuote[],
): boolean {
  const listedStates = new Map(quotes.map(({ quoteId, state }) => [quoteId, state]));
  return expectedPayments
    .paymentsOf(recipient)
    .every(
      ({ quoteId }) => listedStates.get(quoteId) === expectedPayments.mints.quote(quoteId)?.state,
    );
}

/** Compares all pages of a recipient's list with the expected payments. */
export function checkList(
  { expectedPayments, checkRecorder }: StormObservations,
  recipient: Recipient,
  quotes: readonly ListedQuote[],
): void {
  const payments = expectedPayments.paymentsOf(recipient);
  for (const payment of payments) {
    const listed = quotes.filter(({ quoteId }) => quoteId === payment.quoteId);
    if (listed.length !== 1) {
      const problem = `${describePayment(payment)} is listed ${listed.length} times`;
      checkRecorder.addProblem('listedOnce', problem);
    }
    for (const quote of listed) {
      for (const problem of findWrongFields(expectedPayments, payment, quote)) {
        checkRecorder.addProblem('mintState', `${describePayment(payment)}: ${problem}`);
      }
    }
  }
  if (quotes.length !== payments.length) {
    const problem = `${quotes.length} quotes are listed, ${payments.length} were paid`;
    checkRecorder.addProblem('listedOnce', `recipient ${recipient.index}: ${problem}`);
  }
  for (const [index, { paidAt }] of quotes.entries()) {
    if (paidAt > (quotes[index - 1]?.paidAt ?? paidAt)) {
      checkRecorder.addProblem(
        'order',
        `recipient ${recipient.index}: quote ${index} is newer than the quote before it`,
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

/** Checks that each session received its updates. @returns the total number of expected updates */
export function checkUpdates(
  observations: StormObservations,
  sessions: readonly SocketSession[],
): number {
  let totalExpected = 0;
  for (const session of sessions) {
    for (const payment of observations.expectedPayments.paymentsOf(session.recipient)) {
      const expected = countExpectedUpdates(observations, session, payment);
      const received = session.updates.get(payment.quoteId) ?? 0;
      totalExpected += expected;
      if (received < expected) {
        const problem = `${describePayment(payment)}: ${received} updates, not ${expected}`;
        observations.checkRecorder.addProblem('updates', problem);
      }
    }
  }
  return totalExpected;
}

/**
 * Returns the number of updates that a session must receive for a payment. The first update is expected if the socket
 * was open from before the payment until {@link MAX_UPDATE_DELAY_MS} after its listing. The second update is expected
 * if the socket is still open and the recipient redeemed the payment after its listing.
 */
function countExpectedUpdates(
  { expectedPayments, listReader }: StormObservations,
  session: SocketSession,
  { quoteId, paidAtMs }: Payment,
): number {
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
