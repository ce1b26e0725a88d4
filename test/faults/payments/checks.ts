import type { Storm } from '../storm.ts';
import type { ListedQuote, Lists } from './lists.ts';
import type { Session } from './sockets.ts';
import { describePayment, type Payment, type Recipient, type Truth } from './truth.ts';

export const CHECKS = {
  listedOnce: "every payment is listed exactly once, in its recipient's list, and nothing else is",
  listedSoon: 'payment to list takes less than 120 s at p99',
  notEarly: 'no payment is listed or sent before the mint has it, nor to another recipient',
  facts: 'invoices and lists agree with the mint about every payment',
  order: 'the list is newest first, and a listed payment keeps its time',
  told: 'every open socket receives an update for every payment and its collection',
  verify: 'verify URLs report paid invoices as settled, and no others',
};

/** An update follows its payment into the list at once; a busy machine may be slow. */
export const TOLD_WITHIN_MS = 3_000;

/** What the checks compare. */
export interface Evidence extends Storm {
  truth: Truth;
  lists: Lists;
}

/** Whether a list has every payment, each in the state that it has at its mint. */
export function isComplete(
  truth: Truth,
  recipient: Recipient,
  quotes: readonly ListedQuote[],
): boolean {
  const states = new Map(quotes.map(({ quoteId, state }) => [quoteId, state]));
  return truth
    .paymentsTo(recipient)
    .every(({ quoteId }) => states.get(quoteId) === truth.mints.quote(quoteId)?.state);
}

/** Compares a recipient's whole list, read after the storm, with the truth. */
export function checkList(
  { truth, findings }: Evidence,
  recipient: Recipient,
  quotes: readonly ListedQuote[],
): void {
  const payments = truth.paymentsTo(recipient);
  for (const payment of payments) {
    const listed = quotes.filter(({ quoteId }) => quoteId === payment.quoteId);
    if (listed.length !== 1) {
      const problem = `${describePayment(payment)} is listed ${listed.length} times`;
      findings.note('listedOnce', problem);
    }
    for (const problem of listed.flatMap((quote) => wrongFacts(truth, payment, quote))) {
      findings.note('facts', `${describePayment(payment)}: ${problem}`);
    }
  }
  if (quotes.length !== payments.length) {
    const problem = `${quotes.length} quotes are listed, ${payments.length} were paid`;
    findings.note('listedOnce', `recipient ${recipient.index}: ${problem}`);
  }
  for (const [place, { paidAt }] of quotes.entries()) {
    if (paidAt > (quotes[place - 1]?.paidAt ?? paidAt)) {
      findings.note('order', `recipient ${recipient.index}: place ${place} is newer than its top`);
    }
  }
}

function wrongFacts(truth: Truth, payment: Payment, listed: ListedQuote): string[] {
  const { recipient, amountSat, request } = payment.invoice;
  const atMint = truth.mints.quote(payment.quoteId);
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

/** Checks that sockets received their updates. @returns how many were due */
export function checkTold(evidence: Evidence, sessions: readonly Session[]): number {
  let sum = 0;
  for (const session of sessions) {
    for (const payment of evidence.truth.paymentsTo(session.recipient)) {
      const due = updatesDue(evidence, session, payment);
      const got = session.updates.get(payment.quoteId) ?? 0;
      sum += due;
      if (got < due) {
        const problem = `${describePayment(payment)}: ${got} updates, not ${due}`;
        evidence.findings.note('told', problem);
      }
    }
  }
  return sum;
}

/**
 * A socket that was open before the payment, and for some time after it was listed, gets an update. It
 * gets another one if the payment was collected after it was listed, and the socket is still open.
 */
function updatesDue({ truth, lists }: Evidence, session: Session, { quoteId, paidAtMs }: Payment) {
  const sighting = lists.sighting(quoteId);
  if (sighting === undefined || session.openedAtMs >= paidAtMs) {
    return 0;
  }
  if (session.closedAtMs !== null) {
    return sighting.firstSeenAtMs + TOLD_WITHIN_MS < session.closedAtMs ? 1 : 0;
  }
  const isCollected = truth.mints.quote(quoteId)?.state === 'ISSUED';
  return isCollected && sighting.wasSeenUncollected ? 2 : 1;
}
