import type { QuoteState } from '../database/schema.ts';
import type { ObservedState } from '../mints/quote-responses.ts';

/** A payment that is dated further ahead of the clock was recorded before the clock was set back. */
export const MAX_AHEAD_MS = 5_000;

/** A wallet may read the list from a process whose clock is so far behind that of the process that sent the update. */
export const CLOCK_TOLERANCE_MS = 150;

const DAY_MS = 24 * 60 * 60 * 1000;

const LATE_PAYMENT_GRACE_MS = DAY_MS;

/** How long a paid quote is watched if no wallet mints its ecash. */
const PAID_WATCH_MS = 7 * DAY_MS;

/** Times in milliseconds since 1970. */
export interface QuoteStatus {
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  paidAtMs: number | null;
}

export type PaidQuoteState = Extract<QuoteState, 'INFLIGHT' | 'PAID' | 'ISSUED'>;

export function isPaidQuoteState(state: QuoteState): state is PaidQuoteState {
  return state === 'INFLIGHT' || state === 'PAID' || state === 'ISSUED';
}

const STATE_ORDER: readonly QuoteState[] = ['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'];

export function isLaterState(state: QuoteState, than: QuoteState): boolean {
  return STATE_ORDER.indexOf(state) > STATE_ORDER.indexOf(than);
}

export function computeUnpaidWatchUntilMs(
  quote: Pick<QuoteStatus, 'createdAtMs' | 'expiresAtMs'>,
): number {
  return Math.max(quote.expiresAtMs, quote.createdAtMs) + LATE_PAYMENT_GRACE_MS;
}

/** Returns when the watch period of a quote ends (milliseconds since 1970); null if the quote is not watched. */
export function computeWatchUntilMs(quote: QuoteStatus): number | null {
  switch (quote.state) {
    case 'UNPAID':
      return computeUnpaidWatchUntilMs(quote);
    case 'INFLIGHT':
    case 'PAID':
      return (quote.paidAtMs ?? quote.createdAtMs) + PAID_WATCH_MS;
    case 'ISSUED':
    case 'EXPIRED':
      return null;
  }
}

/**
 * What an observation means for a stored quote. With `payment_received` it enters the recipient's list, where
 * `state_changed` is possible. A `state_regression`, to an earlier state, is impossible at an honest mint.
 */
export type QuoteTransition = StateChange | { outcome: 'unchanged' | 'state_regression' };

interface StateChange {
  outcome: 'payment_received' | 'state_changed' | 'expired';
  state: QuoteState;
}

export function isStateChange(transition: QuoteTransition): transition is StateChange {
  return 'state' in transition;
}

/** @param shouldEndWatch whether the service no longer waits for a late payment */
export function decideTransition(
  current: QuoteState,
  observed: ObservedState,
  shouldEndWatch: boolean,
): QuoteTransition {
  if (observed === current) {
    return current === 'UNPAID' && shouldEndWatch
      ? { outcome: 'expired', state: 'EXPIRED' }
      : { outcome: 'unchanged' };
  }
  if (isPaidQuoteState(current)) {
    return current === 'ISSUED' || observed === 'UNPAID'
      ? { outcome: 'state_regression' }
      : { outcome: 'state_changed', state: observed };
  }
  return observed === 'UNPAID'
    ? { outcome: 'unchanged' }
    : { outcome: 'payment_received', state: observed };
}

/**
 * Returns the `paidAt` of a recipient's next payment (milliseconds since 1970): now, but never in a second that wallets
 * may have seen, because some ignore payments that are not later than the newest one they know. Never decreases,
 * because the order of the list depends on it.
 */
export function computePaidAtMs(
  { lastPaidAtMs, listedUntilMs }: { lastPaidAtMs: number | null; listedUntilMs: number },
  nowMs: number,
): number {
  return Math.max(nowMs, lastPaidAtMs ?? 0, listedUntilMs);
}

/** Returns the date of a zap receipt: the payment's, but hardly ahead of the clock, because relays reject future events. */
export function computeReceiptCreatedAtMs(paidAtMs: number, nowMs: number): number {
  return Math.min(paidAtMs, nowMs + MAX_AHEAD_MS);
}
