import type { Storm } from '../storm.ts';
import { sleepUnlessAborted } from '../storm-client.ts';
import {
  describePayment,
  type ExpectedPayments,
  type Payment,
  type Recipient,
} from './expected-payments.ts';
import type { ListedQuote, ListReader } from './list-reader.ts';
import type { SocketSession, WalletSockets } from './wallet-sockets.ts';

export const CHECKS = {
  listedOnce: "each recipient's list has all payments to the recipient, each exactly once",
  listedInTime: '99 % of the payments are listed within 120 s',
  notEarly:
    'no list or update reports a payment before the mint received it, or to another recipient',
  mintState: 'invoices and listed quotes match the quotes at the mint',
  order: 'lists have the newest payment first, and the time of a listed payment does not change',
  updates: 'every open socket receives an update when a payment arrives and when it is redeemed',
  informed:
    'every wallet learns of every payment from its socket, or from its list after connecting',
  verify: 'verify URLs report paid invoices as settled, and unpaid invoices as not settled',
};

/** The service sends an update when it lists a payment. This allows for a busy machine. */
export const MAX_UPDATE_DELAY_MS = 3_000;

/** All payments must be listed within this time after the last payment. */
const MAX_LISTING_WAIT_MS = 240_000;
const LISTING_POLL_INTERVAL_MS = 500;

const CONCURRENT_VERIFY_REQUESTS = 8;

export interface StormObservations extends Storm {
  expectedPayments: ExpectedPayments;
  listReader: ListReader;
}

/** Reads all lists until they are complete, at most for {@link MAX_LISTING_WAIT_MS}. */
export async function waitUntilListsComplete({
  expectedPayments,
  listReader,
  signal,
}: StormObservations): Promise<void> {
  const startedAtMs = Date.now();
  const incompleteRecipients = new Set(expectedPayments.recipients);
  while (incompleteRecipients.size > 0 && Date.now() - startedAtMs < MAX_LISTING_WAIT_MS) {
    for (const recipient of incompleteRecipients) {
      const quotes = await listReader.readAllPages(recipient);
      if (quotes !== null && isListComplete(expectedPayments, recipient, quotes)) {
        incompleteRecipients.delete(recipient);
      }
    }
    await sleepUnlessAborted(LISTING_POLL_INTERVAL_MS, signal);
    signal.throwIfAborted();
  }
}

function isListComplete(
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
      const times = session.updateTimesMs.get(payment.quoteId) ?? [];
      totalExpected += expected;
      // After an interruption, the service sends one update for all changes that the socket missed.
      const isAfterLastChange = (times.at(-1) ?? 0) >= (payment.redeemedAtMs ?? Infinity);
      if (times.length < expected && !isAfterLastChange) {
        const problem = `${describePayment(payment)}: ${times.length} updates, not ${expected}`;
        observations.checkRecorder.addProblem('updates', problem);
      }
    }
  }
  return totalExpected;
}

export function checkWalletsAreInformed(
  { expectedPayments, checkRecorder }: StormObservations,
  { wallets }: WalletSockets,
): void {
  for (const { recipient, knownQuoteIds } of wallets) {
    for (const payment of expectedPayments.paymentsOf(recipient)) {
      if (!knownQuoteIds.has(payment.quoteId)) {
        checkRecorder.addProblem('informed', `${describePayment(payment)} is unknown to a wallet`);
      }
    }
  }
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

export async function checkVerifyUrls({
  expectedPayments,
  checkRecorder,
  random,
  request: sendRequest,
  pickOrigin,
}: StormObservations): Promise<void> {
  const remainingInvoices = expectedPayments.invoices.values();
  const verifyRemaining = async () => {
    for (const { number, verifyPath, request, payment } of remainingInvoices) {
      const response = await sendRequest(pickOrigin(random), verifyPath);
      if (response?.body.settled !== (payment !== null) || response.body.pr !== request) {
        checkRecorder.addProblem(
          'verify',
          `payment ${number}: settled is ${response?.body.settled}`,
        );
      }
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_VERIFY_REQUESTS }, verifyRemaining));
}
