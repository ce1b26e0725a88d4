import type { SimulatedMint } from './simulated-mint.ts';
import type { ClientRequest } from './simulated-network.ts';
import type { Payment } from './truth.ts';

// How fast the documents say that the service is (docs/architecture.md and the ADRs). Times are milliseconds.

/** With a WebSocket that works, and no limit of the mint. Includes the second that ADR 40 may add. */
const SUBSCRIBED_MS = 3_000;

/** Until a poll finds a payment that the mint received while it registered the subscription. */
const SUBSCRIPTION_CHECK_MS = 3_000;

/** The longest pauses at a mint that limits requests (ADR 34): those to recognise the limit, and then a quiet minute. */
const RATE_LIMIT_MS = 250_000;

/** From the poll to the list: time between two polls, the response, the transaction, the next second (ADR 40). */
const POLL_AND_RECORD_MS = 5_000;

/** Until all processes run, have taken over the leases of dead ones, and have reconnected to database and mints. */
export const RESTART_MS = 60_000;

/** Until other processes watch what a dead one watched: at most 20 s (ADR 6), and more if a clock was corrected meanwhile. */
export const TAKEOVER_MS = 40_000;

/** The poll interval of a new quote. Such quotes are polled before others. */
const URGENT_MS = 4_000;

/** The longest poll interval without a subscription. */
const MAX_INTERVAL_MS = 2 * 3_600_000;

/** A response without a request to a mint: up to 5 s until a connection works, and three statements (docs/security.md). */
const DATABASE_REQUEST_MS = 5_000 + 3 * 8_000;

/** The mint's info, the rate limiter for 8 s, and a quote twice; each request to a mint takes up to 15 s. */
const MINT_REQUEST_MS = 45_000;

/** When a client may expect a response, even if it is an error. */
export function getDeadlineMs({ path, method = 'GET' }: ClientRequest): number {
  const mayAskMint = path.includes('/lnurlp/') || (path.includes('/user/') && method !== 'GET');
  return mayAskMint ? MINT_REQUEST_MS : DATABASE_REQUEST_MS;
}

/** How long it takes to list a payment, or to show that it was issued, if nothing fails. */
export function getNoticeMs(payment: Payment, change: 'paid' | 'issued'): number {
  const { mint } = payment.invoice;
  const { hasWebSocket, isWebSocketSilent, rateLimit, subscriptionGapMs } = mint.switches;
  const isSubscribed = hasWebSocket && !isWebSocketSilent;
  const isGap = subscriptionGapMs > 0;
  // Only unpaid quotes are polled just after their subscription.
  const mayBeMissed = isGap && change === 'issued' && isIssuedAtOnce(payment);
  if (isSubscribed && rateLimit === null && !mayBeMissed) {
    return SUBSCRIBED_MS + (isGap ? SUBSCRIPTION_CHECK_MS + getQueueMs(mint, URGENT_MS) : 0);
  }
  const atMs = change === 'paid' ? payment.paidAtMs : (payment.issuedAtMs ?? payment.paidAtMs);
  const intervalMs = getPollIntervalMs(payment, change, atMs, isSubscribed);
  return intervalMs + POLL_AND_RECORD_MS + getQueueMs(mint, intervalMs);
}

/** Perhaps before the quote was subscribed. */
function isIssuedAtOnce({ invoice, issuedAtMs }: Payment): boolean {
  return issuedAtMs !== null && issuedAtMs < invoice.receivedAtMs + SUBSCRIBED_MS;
}

/** The same after faults that ended at a time. */
export function getNoticeDeadlineMs(
  payment: Payment,
  change: 'paid' | 'issued',
  calmAtMs: number,
): number {
  const { mint } = payment.invoice;
  const changedAtMs = change === 'paid' ? payment.paidAtMs : (payment.issuedAtMs ?? 0);
  const fromMs = Math.max(changedAtMs, calmAtMs) + RESTART_MS;
  // While the mint is gone for hours, no poll succeeds, so that most are due when it is back.
  const goneSinceMs = mint.goneForHoursSinceMs ?? fromMs;
  const lastPollAtMs = changedAtMs <= goneSinceMs ? Math.min(fromMs, goneSinceMs) : fromMs;
  const intervalMs = getPollIntervalMs(payment, change, lastPollAtMs, true);
  const dueAtMs = Math.max(fromMs, lastPollAtMs + intervalMs);
  return dueAtMs + POLL_AND_RECORD_MS + getQueueMs(mint, intervalMs);
}

/**
 * Until an id is alone for which a mint rejects batches (architecture.md): a batch of 100 is halved seven times, in turn
 * with other batches, one in a second.
 */
const REJECTION_MS = 14_000;

/** Without batches, a mint that a user chose gets two reads a second, a quarter of them for older quotes (ADR 37). */
function getQueueMs(mint: SimulatedMint, intervalMs: number): number {
  const { switches, state, omitsFromBatches, forgottenCount, deletedAtMs } = mint;
  const readMs = intervalMs <= URGENT_MS ? 2_000 / 3 : 2_000;
  const isReadAlone = switches.batchCheck === 'absent' || omitsFromBatches;
  // The service also reads those that the mint has deleted.
  const quoteCount = state.quotes.byId.size + deletedAtMs.size;
  const readsMs = isReadAlone ? quoteCount * readMs : 0;
  const rejectionsMs = forgottenCount * REJECTION_MS;
  return readsMs + rejectionsMs + (switches.rateLimit === null ? 0 : RATE_LIMIT_MS);
}

/** ADR 33. A subscription that lost a message lets polls wait five times as long, but at most twice the longest interval. */
function getPollIntervalMs(
  payment: Payment,
  change: 'paid' | 'issued',
  atMs: number,
  isSubscribed: boolean,
): number {
  const intervalMs = Math.min(growInterval(payment, change, atMs), MAX_INTERVAL_MS);
  return isSubscribed ? Math.min(5 * intervalMs, 2 * MAX_INTERVAL_MS) : intervalMs;
}

/** Each twentieth of the age, and longer after the expiry. A paid quote: each thirtieth of the time since then. */
function growInterval({ invoice, paidAtMs }: Payment, change: 'paid' | 'issued', atMs: number) {
  if (change === 'issued') {
    return Math.max(15_000, (atMs - paidAtMs) / 30);
  }
  const ageMs = atMs - invoice.requestedAtMs;
  const sinceExpiryMs = ageMs - invoice.mint.switches.expirySeconds * 1_000;
  return sinceExpiryMs < 5_000 || ageMs < 600_000
    ? Math.max(URGENT_MS, ageMs / 20)
    : Math.max(60_000, sinceExpiryMs / 3);
}
