import { getNoticeDeadlineMs, getNoticeMs, RESTART_MS } from './promises.ts';
import { isForgotten, type Payment } from './truth.ts';
import { toUnixSeconds } from './virtual-platform.ts';
import type { SocketSession } from './wallet-socket.ts';
import type { Wallet } from './wallets.ts';
import type { World } from './world.ts';

// What must have become true at the end, when everything had time to recover.

/** If nothing fails, the payment must be listed as soon as the documents say. */
export function expectPromptListing(world: World, payment: Payment): void {
  const { scheduler, referee, health, auditors, database } = world;
  const { paidAtMs, quoteId, invoice } = payment;
  const auditor = auditors.find(({ key }) => key === invoice.recipient) as Wallet;
  const scheduleCheck = () => {
    const dueAtMs = paidAtMs + getNoticeMs(payment, 'paid');
    scheduler.schedule(dueAtMs - scheduler.nowMs, () => void check(dueAtMs), auditor.actor);
  };
  const isListed = async () => {
    // The clocks of the processes may differ by some seconds.
    const page = await auditor.client.readPage(0, toUnixSeconds(paidAtMs) - 60);
    const isFound = page?.quotes.some((quote) => quote.quoteId === quoteId);
    return isFound || (page !== null && page.total > page.quotes.length);
  };
  const check = async (dueAtMs: number) => {
    if (dueAtMs < paidAtMs + getNoticeMs(payment, 'paid')) {
      // Meanwhile, the mint has forgotten other quotes.
      scheduleCheck();
      return;
    }
    payment.wasHealthy = health.isHealthy(payment);
    // A client's connection may fail. The next read of the list would show what is recorded.
    const sql = 'select 1 from quotes where quote_id = ? and paid_at is not null';
    const isPrompt = referee.isCalm(paidAtMs)
      ? await isListed()
      : !payment.wasHealthy || database.query(sql, quoteId).length > 0;
    if (!isPrompt && !isForgotten(payment, dueAtMs)) {
      const text = `${quoteId} paid at ${formatSeconds(paidAtMs)}`;
      referee.report('payments are listed promptly', text);
    }
  };
  scheduleCheck();
}

/** Returns whether clients have seen all payments, and that they were issued, except for those that may take longer. */
export function isComplete(world: World, untilMs: number): boolean {
  return listMissing(world, untilMs).length === 0;
}

/** Reports payments that were not shown in time after the faults. */
export function checkPayments(world: World): void {
  const { scheduler, referee } = world;
  for (const { payment, change, deadlineMs } of listMissing(world, scheduler.nowMs)) {
    if (deadlineMs < scheduler.nowMs) {
      referee.report(
        change === 'paid' ? 'every payment is listed' : 'states become current',
        `${payment.quoteId} of ${payment.invoice.payer}, paid at ${formatSeconds(payment.paidAtMs)}`,
      );
    }
  }
}

/** Returns when the last promise about a payment falls due. */
export function getLastDeadlineMs(world: World): number {
  const missing = listMissing(world, world.scheduler.nowMs);
  return Math.max(0, ...missing.map(({ deadlineMs }) => deadlineMs));
}

function listMissing({ truth, referee }: World, untilMs: number) {
  const missing: { payment: Payment; change: 'paid' | 'issued'; deadlineMs: number }[] = [];
  const add = (payment: Payment, change: 'paid' | 'issued') => {
    const deadlineMs = getNoticeDeadlineMs(payment, change, referee.faultsEndedAtMs);
    if (!isForgotten(payment, deadlineMs)) {
      missing.push({ payment, change, deadlineMs });
    }
  };
  for (const payment of truth.paymentsByQuoteId.values()) {
    const { quoteId, invoice, issuedAtMs, paidAtMs } = payment;
    if (paidAtMs < untilMs && !referee.isListed(quoteId)) {
      add(payment, 'paid');
    } else if (
      issuedAtMs !== null &&
      issuedAtMs < untilMs &&
      // Old mints have no state for it.
      invoice.mint.switches.stateStyle !== 'paid' &&
      referee.getListedAsIssuedMs(quoteId) === Number.POSITIVE_INFINITY
    ) {
      add(payment, 'issued');
    }
  }
  return missing;
}

/** Each wallet reads once more in its own way, and must then know all payments that were listed before. */
export async function checkWallets({ wallets, truth, referee, scheduler }: World): Promise<void> {
  const startedAtMs = scheduler.nowMs;
  const waiting = new Set(wallets);
  for (const wallet of wallets) {
    scheduler.start(wallet.actor, async () => {
      while (!(await wallet.sync())) {
        await scheduler.sleep(2_000);
      }
      waiting.delete(wallet);
      const missing = truth
        .paymentsOf(wallet.key.pubkey)
        .filter(({ listedAtMs }) => listedAtMs !== null && listedAtMs < startedAtMs)
        .filter(({ quoteId }) => !wallet.known.has(quoteId))
        .filter(({ paidAtMs }) => paidAtMs > wallet.mayMissUntilMs);
      for (const { quoteId } of missing) {
        referee.report('each wallet finds every payment', `${wallet.actor.name}: ${quoteId}`);
      }
    });
  }
  while (waiting.size > 0 && scheduler.nowMs < startedAtMs + RESTART_MS) {
    await scheduler.runUntil(scheduler.nowMs + 5_000);
  }
  for (const { actor } of waiting) {
    referee.report('wallets can read', actor.name);
  }
}

/** Each socket gets an update when a payment appears, and for its later states. */
export function checkSockets(world: World): void {
  const { wallets, truth } = world;
  for (const session of wallets.flatMap(({ sessions }) => sessions)) {
    for (const payment of truth.paymentsOf(session.pubkey)) {
      checkUpdates(world, session, payment, 'paid');
      checkUpdates(world, session, payment, 'issued');
    }
  }
}

function checkUpdates(
  { scheduler, referee, health }: World,
  session: SocketSession,
  payment: Payment,
  change: 'paid' | 'issued',
): void {
  const { quoteId, paidAtMs, issuedAtMs, listedAtMs, invoice, wasHealthy } = payment;
  const { authenticatedAtMs, knownAtStart, updates } = session;
  const changedAtMs = change === 'paid' ? paidAtMs : issuedAtMs;
  const isSilentMint = change === 'issued' && invoice.mint.switches.stateStyle === 'paid';
  if (authenticatedAtMs === null || changedAtMs === null || isSilentMint) {
    return;
  }
  const endedAtMs = session.endedAtMs ?? scheduler.nowMs;
  const firstAtMs = updates.get(quoteId)?.find((atMs) => atMs >= changedAtMs);
  const describe = () =>
    `${quoteId} ${change} at ${formatSeconds(changedAtMs)}, ${firstAtMs === undefined ? 'no update' : `update at ${formatSeconds(firstAtMs)}`}, socket from ${formatSeconds(authenticatedAtMs)} to ${formatSeconds(endedAtMs)}`;
  const isCalm = referee.isCalm(paidAtMs);
  // A clock that was wrong may have dated an earlier payment up to five seconds ahead (ADR 40).
  const clockMs = !isCalm && referee.haveClockFaults ? 5_000 : 0;
  const noticeMs = getNoticeMs(payment, change) + clockMs;
  if (
    changedAtMs > authenticatedAtMs &&
    (isCalm || (change === 'paid' && wasHealthy)) &&
    endedAtMs > changedAtMs + noticeMs
  ) {
    if (firstAtMs === undefined || firstAtMs > changedAtMs + noticeMs) {
      referee.report('updates are prompt', describe());
    }
    return;
  }
  // What the wallet did not find after it had connected must be announced.
  const isNew =
    changedAtMs > authenticatedAtMs ||
    (change === 'paid' && knownAtStart !== null && !knownAtStart.has(quoteId));
  const shownAtMs =
    change === 'paid'
      ? (listedAtMs ?? Number.POSITIVE_INFINITY)
      : referee.getListedAsIssuedMs(quoteId);
  const isOpen = session.endedAtMs === null;
  const isDue = shownAtMs + (isOpen ? MAX_DELAY_MS : RESTART_MS) < endedAtMs;
  // A process that was suspended sent nothing.
  const mustBeSent = isDue && (isOpen || !health.isDisturbed(shownAtMs));
  // On a socket that is still open, it comes when the process continues.
  const maxDelayMs = health.isDisturbed(shownAtMs) ? Number.POSITIVE_INFINITY : MAX_DELAY_MS;
  const isLate = firstAtMs === undefined || firstAtMs > shownAtMs + maxDelayMs;
  if (isNew && mustBeSent && isLate) {
    referee.report('every socket gets updates', describe());
  }
}

/** Until a process that missed a notification has found out, and sent the update. */
const MAX_DELAY_MS = 30_000;

function formatSeconds(ms: number): string {
  return `${(ms / 1_000).toFixed(3)} s`;
}
