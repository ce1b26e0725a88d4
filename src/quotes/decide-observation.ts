import type { QuoteState } from '../database/schema.ts';
import type { ObservedState, QuoteObservation } from '../mints/quote-responses.ts';
import type { PaymentCounter } from '../recipients/user-store.ts';
import type { NewQuoteEvent, RejectionReason } from './quote-event-store.ts';
import {
  computePaidAtMs,
  computeWatchUntilMs,
  decideTransition,
  MAX_AHEAD_MS,
  type QuoteTransition,
} from './quote-state.ts';
import type { Quote } from './quote-store.ts';
import type { QuoteChange } from './watched-quote-store.ts';

export type ObservationSource = 'socket' | 'poll';

export interface SourcedObservation extends QuoteObservation {
  source: ObservationSource;
  /** Whether the service stops watching the quote if the mint reports no change. */
  shouldEndWatch?: boolean;
  /** Whether a poll has found the quote paid, and not issued, some time after its expiry. */
  wasPaidAfterExpiry?: boolean;
}

/** The state of a quote after an observation was recorded. */
export interface RecordedQuote {
  quoteId: string;
  state: QuoteState;
  paidAtMs: number | null;
  isWatched: boolean;
  hasStateChanged: boolean;
  rejection: RejectionReason | null;
  source: ObservationSource;
}

export interface Decision extends RecordedQuote {
  /** As it is stored before the change. */
  quote: Quote;
  reportedState: ObservedState;
  outcome: QuoteTransition['outcome'];
  /** What to write to the quote's row. */
  change: QuoteChange | null;
}

/** Decides what an observation changes. @param counter numbers a new payment; required if the quote is unpaid */
export function decideObservation(
  quote: Quote,
  observation: SourcedObservation,
  counter: PaymentCounter | undefined,
  nowMs: number,
): Decision {
  const shouldEndWatch = observation.shouldEndWatch === true;
  const isCredible = hasStoredAmountAndInvoice(quote, observation);
  // To its mint, an expired quote is unpaid.
  const currentState = quote.state === 'EXPIRED' ? 'UNPAID' : quote.state;
  // A report about another amount or invoice counts as a report of the current state.
  const observedState = isCredible ? observation.state : currentState;
  const { outcome, newState } = decideTransition(quote.state, observedState, shouldEndWatch);
  let rejection: RejectionReason | null = null;
  if (!isCredible) {
    rejection = 'amount_or_invoice_mismatch';
  } else if (outcome === 'state_regression') {
    rejection = 'state_regression';
  }
  const hasStateChanged = newState !== quote.state;
  let change: QuoteChange | null = null;
  if (hasStateChanged) {
    const payment = outcome === 'payment_received' ? numberPayment(quote, counter, nowMs) : null;
    const paidAtMs = payment?.paidAtMs ?? quote.paidAtMs;
    const watchUntilMs = computeWatchUntilMs({ ...quote, state: newState, paidAtMs });
    change = { id: quote.id, state: newState, watchUntilMs, payment };
  } else if (shouldEndWatch && quote.watchUntilMs !== null) {
    change = { id: quote.id, state: quote.state, watchUntilMs: null, payment: null };
  }
  return {
    quote,
    reportedState: observation.state,
    outcome,
    change,
    quoteId: quote.quoteId,
    state: newState,
    paidAtMs: change?.payment?.paidAtMs ?? quote.paidAtMs,
    isWatched: (change ?? quote).watchUntilMs !== null,
    hasStateChanged,
    rejection,
    source: observation.source,
  };
}

/** A missing value counts as equal: the mint may omit both, and an imported quote may have no invoice. */
function hasStoredAmountAndInvoice(quote: Quote, observation: QuoteObservation): boolean {
  const { amountSat = quote.amountSat, request = quote.request } = observation;
  const isSameInvoice = request.toLowerCase() === quote.request.toLowerCase();
  return amountSat === quote.amountSat && (quote.request === '' || isSameInvoice);
}

/**
 * A payment is not dated before its quote, which another process may have dated by a clock that is ahead: cdk wallets ask
 * for payments after the newest `createdAt` that they know (ADR 40).
 */
function numberPayment(quote: Quote, counter: PaymentCounter | undefined, nowMs: number) {
  if (counter === undefined) {
    throw new Error('a first payment needs the locked counter of its recipient');
  }
  const earliestMs = Math.max(nowMs, Math.min(quote.createdAtMs, nowMs + MAX_AHEAD_MS));
  return { paidAtMs: computePaidAtMs(counter, earliestMs), paidSeq: counter.paidCount + 1 };
}

export function toQuoteEvents(decision: Decision, atMs: number): NewQuoteEvent[] {
  const { quote, reportedState, state, hasStateChanged, rejection, source } = decision;
  const common = { quoteRowId: quote.id, atMs };
  const events: NewQuoteEvent[] = [];
  if (rejection !== null) {
    events.push({ ...common, kind: 'observation_rejected', reason: rejection, reportedState });
  }
  if (hasStateChanged) {
    events.push({ ...common, kind: 'state', from: quote.state, to: state, source });
  }
  return events;
}
