import type { Findings } from './findings.ts';
import { type ListedQuote, type ListPage, PAGE_SIZE } from './list-reader.ts';
import type { Observer } from './observer.ts';
import { describePayment, type Payment, type Recipient, type Truth } from './truth.ts';
import type { Session } from './wallet-sockets.ts';

/** An update follows its payment into the list at once; a busy machine may take its time. */
export const TOLD_WITHIN_MS = 3_000;

/** A recipient's payments are a second apart, and run ahead of the clock by no more than this. */
const MAX_AHEAD_MS = 5_000;

/** Of many payments at once, each is a millisecond after the one before, whatever the clock says. */
const MANY_AT_ONCE_MS = 1_000;

/** What a check looks at, and where it notes what is wrong. */
export interface Evidence {
  truth: Truth;
  observer: Observer;
  findings: Findings;
}

/** Whether a list has every payment, each in the state that it has at its mint. */
export function isComplete(
  truth: Truth,
  recipient: Recipient,
  pages: readonly ListPage[],
): boolean {
  const listed = new Map(pages.flatMap((page) => page.quotes).map((each) => [each.quoteId, each]));
  return truth
    .paymentsTo(recipient)
    .every(({ quoteId }) => listed.get(quoteId)?.state === truth.mints.quote(quoteId)?.state);
}

/** Holds a recipient's whole list, read when all was quiet, against the truth. */
export function checkList(
  evidence: Evidence,
  recipient: Recipient,
  pages: readonly ListPage[],
): void {
  const { truth, findings } = evidence;
  const quotes = pages.flatMap((page) => page.quotes);
  const counts = new Map<string, number>();
  for (const { quoteId } of quotes) {
    counts.set(quoteId, (counts.get(quoteId) ?? 0) + 1);
  }
  for (const payment of truth.paymentsTo(recipient)) {
    const count = counts.get(payment.quoteId) ?? 0;
    if (count !== 1) {
      findings.note('listedOnce', `${describePayment(payment)} is listed ${count} times`);
    }
  }
  for (const [place, quote] of quotes.entries()) {
    const payment = truth.payment(quote.quoteId);
    if (payment?.invoice.recipient === recipient) {
      checkFacts(evidence, payment, quote);
      checkTime(evidence, payment, quote);
    } else {
      const what = payment === undefined ? 'a quote that nobody paid' : describePayment(payment);
      findings.note('nothingElse', `recipient ${recipient.index}, place ${place}: ${what}`);
    }
  }
  checkOrder(evidence, recipient, quotes);
  checkPages(findings, recipient, pages);
}

function checkFacts({ truth, findings }: Evidence, payment: Payment, listed: ListedQuote): void {
  const { recipient, amountSat, request } = payment.invoice;
  const atMint = truth.mints.quote(payment.quoteId);
  const expected = {
    state: atMint?.state,
    amount: amountSat,
    request,
    mintUrl: recipient.mint.mint.url,
    locked: atMint?.pubkey !== null,
    expiresAt: atMint?.expiresAt,
  };
  for (const [field, value] of Object.entries(expected)) {
    const said = listed[field as keyof typeof expected];
    if (said !== value) {
      const problem = `${field} is listed as ${said}, the mint has ${value}`;
      findings.note('facts', `${describePayment(payment)}: ${problem}`);
    }
  }
}

/** `paidAt` is when the payment was recorded: after it was made, and hardly ahead of the clock. */
function checkTime(
  { observer, findings }: Evidence,
  payment: Payment,
  { paidAt }: ListedQuote,
): void {
  if (paidAt < Math.floor(payment.paidAtMs / 1000)) {
    findings.note('notEarly', `${describePayment(payment)} has an earlier paidAt: ${paidAt}`);
  }
  const seenAtMs = observer.sighting(payment.quoteId)?.firstSeenAtMs ?? Date.now();
  if (paidAt * 1000 > seenAtMs + MAX_AHEAD_MS + MANY_AT_ONCE_MS) {
    const problem = `was seen at ${new Date(seenAtMs).toISOString()} with paidAt ${paidAt}`;
    findings.note('order', `${describePayment(payment)} ${problem}`);
  }
}

/** Newest first; two share a second only where there were so many that the clock was left behind. */
function checkOrder(
  { truth, findings }: Evidence,
  recipient: Recipient,
  quotes: readonly ListedQuote[],
): void {
  for (const [place, older] of quotes.entries()) {
    const newer = quotes[place - 1];
    if (newer === undefined || newer.paidAt > older.paidAt) {
      continue;
    }
    const where = `recipient ${recipient.index}, places ${place - 1} and ${place}`;
    if (newer.paidAt < older.paidAt) {
      findings.note('order', `${where}: paidAt ${newer.paidAt} stands before ${older.paidAt}`);
      continue;
    }
    const paidAtMs = truth.payment(newer.quoteId)?.paidAtMs ?? 0;
    if (newer.paidAt < Math.floor((paidAtMs + MAX_AHEAD_MS) / 1000)) {
      findings.note('order', `${where} share paidAt ${newer.paidAt} without need`);
    }
  }
}

function checkPages(findings: Findings, recipient: Recipient, pages: readonly ListPage[]): void {
  const count = pages.reduce((sum, page) => sum + page.quotes.length, 0);
  for (const [index, { quotes, total }] of pages.entries()) {
    const where = `recipient ${recipient.index}, page ${index + 1}`;
    if (total !== count) {
      findings.note('totals', `${where}: total is ${total}, and ${count} are listed`);
    }
    const expected = Math.min(PAGE_SIZE, Math.max(0, total - index * PAGE_SIZE));
    if (quotes.length !== expected) {
      findings.note('totals', `${where} has ${quotes.length} rows, not ${expected} of ${total}`);
    }
  }
}

/** Holds the list since a time against the whole one: nothing later is missing, nothing earlier in it. */
export function checkSince(
  findings: Findings,
  recipient: Recipient,
  all: readonly ListPage[],
  since: number,
  later: readonly ListPage[],
): void {
  const where = `recipient ${recipient.index}, since ${since}`;
  const listed = later.flatMap((page) => page.quotes);
  const ids = new Set(listed.map(({ quoteId }) => quoteId));
  const missing = all
    .flatMap((page) => page.quotes)
    .filter(({ quoteId, paidAt }) => paidAt > since && !ids.has(quoteId));
  const tooOld = listed.filter(({ paidAt }) => paidAt < since);
  if (missing.length > 0 || tooOld.length > 0 || ids.size !== listed.length) {
    const problem = `${missing.length} missing, ${tooOld.length} too old, ${listed.length} in all`;
    findings.note('totals', `${where}: ${problem}`);
  }
  checkPages(findings, recipient, later);
}

/** Whether the sockets got what they were owed. @returns how many updates that is */
export function checkTold(evidence: Evidence, sessions: readonly Session[]): number {
  const { truth, findings } = evidence;
  let owed = 0;
  for (const session of sessions) {
    for (const payment of truth.paymentsTo(session.recipient)) {
      const expected = updatesOwed(evidence, session, payment);
      const got = session.updates.get(payment.quoteId) ?? 0;
      owed += expected;
      if (got < expected) {
        const lasted = `${iso(session.openedAtMs)} to ${session.closedAtMs === null ? 'the end' : iso(session.closedAtMs)}`;
        findings.note(
          'told',
          `${describePayment(payment)}: ${got} updates, not ${expected}, on a socket to ${session.origin} that lasted from ${lasted}`,
        );
      }
    }
  }
  return owed;
}

/**
 * A socket that was open before a payment was made, and still some time after it was seen in the list,
 * has been told of it. Where it was seen before it was collected, and the socket is open still, it was
 * told of that too.
 */
function updatesOwed({ truth, observer }: Evidence, session: Session, payment: Payment): number {
  const sighting = observer.sighting(payment.quoteId);
  if (sighting === undefined || session.openedAtMs >= payment.paidAtMs) {
    return 0;
  }
  if (session.closedAtMs !== null) {
    return sighting.firstSeenAtMs + TOLD_WITHIN_MS < session.closedAtMs ? 1 : 0;
  }
  const isCollected = truth.mints.quote(payment.quoteId)?.state === 'ISSUED';
  return isCollected && sighting.wasSeenUncollected ? 2 : 1;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
