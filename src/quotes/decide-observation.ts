import type { QuoteObservation } from '../mints/quote-responses.ts';
import type { PaymentCounter } from '../recipients/user-store.ts';
import type { NewQuoteEvent, RejectionReason } from './quote-event-store.ts';
import {
  computePaidAtMs,
  computeWatchUntilMs,
  decideTransition,
  isStateChange,
  type QuoteTransition,
} from './quote-state.ts';
import type { Quote } from './quote-store.ts';
import type { QuoteChange } from './watched-quote-store.ts';

export type ObservationSource = 'socket' | 'poll';

export interface SourcedObservation extends QuoteObservation {
  source: ObservationSource;
  /** Whether the service stops watching the quote if this observation changes nothing. */
  shouldEndWatch?: boolean;
}

export interface Decision {
  quote: Quote;
  observation: SourcedObservation;
  transition: QuoteTransition;
  anomaly: RejectionReason | null;
  change: QuoteChange | null;
}

/** Decides what an observation changes. A new payment is appended to the recipient's list after the `counter`. */
export function decideObservation(
  quote: Quote,
  observation: SourcedObservation,
  counter: PaymentCounter | undefined,
  nowMs: number,
): Decision {
  const shouldEndWatch = observation.shouldEndWatch === true;
  const isCredible = hasStoredAmountAndInvoice(quote, observation);
  const currentState = quote.state === 'EXPIRED' ? 'UNPAID' : quote.state;
  const observedState = isCredible ? observation.state : currentState;
  const transition = decideTransition(quote.state, observedState, shouldEndWatch);
  let anomaly: Decision['anomaly'] = null;
  if (!isCredible) {
    anomaly = 'amount_or_invoice_mismatch';
  } else if (transition.outcome === 'state_regression') {
    anomaly = 'state_regression';
  }
  let change: QuoteChange | null = null;
  if (isStateChange(transition)) {
    const { outcome, state } = transition;
    const payment = outcome === 'payment_received' ? appendPayment(counter, nowMs) : null;
    const paidAtMs = payment?.paidAtMs ?? quote.paidAtMs;
    const watchUntilMs = computeWatchUntilMs({ ...quote, state, paidAtMs });
    change = { id: quote.id, state, watchUntilMs, payment };
  } else if (shouldEndWatch && quote.watchUntilMs !== null) {
    change = { id: quote.id, state: quote.state, watchUntilMs: null, payment: null };
  }
  return { quote, observation, transition, anomaly, change };
}

/** An imported quote may have no invoice to compare. */
function hasStoredAmountAndInvoice(quote: Quote, observation: QuoteObservation): boolean {
  const { amountSat = quote.amountSat, request = quote.request } = observation;
  const isSameInvoice = request.toLowerCase() === quote.request.toLowerCase();
  return amountSat === quote.amountSat && (quote.request === '' || isSameInvoice);
}

function appendPayment(
  counter: PaymentCounter | undefined,
  nowMs: number,
): NonNullable<QuoteChange['payment']> {
  if (counter === undefined) {
    throw new Error('a first payment needs the locked counter of its recipient');
  }
  return { paidAtMs: computePaidAtMs(counter, nowMs), paidSeq: counter.paidCount + 1 };
}

/** The state of a quote after an observation was recorded. */
export interface RecordedQuote extends Pick<Quote, 'quoteId' | 'state' | 'paidAtMs'> {
  isWatched: boolean;
  hasStateChanged: boolean;
  isRejected: boolean;
  source: ObservationSource;
}

export function toRecordedQuote(decision: Decision): RecordedQuote {
  const { quote, observation, transition, anomaly, change } = decision;
  return {
    quoteId: quote.quoteId,
    state: change?.state ?? quote.state,
    paidAtMs: change?.payment?.paidAtMs ?? quote.paidAtMs,
    isWatched: (change ?? quote).watchUntilMs !== null,
    hasStateChanged: isStateChange(transition),
    isRejected: anomaly !== null,
    source: observation.source,
  };
}

export function toQuoteEvents(decision: Decision, atMs: number): NewQuoteEvent[] {
  const { quote, observation, transition, anomaly } = decision;
  const { state: reportedState, source } = observation;
  const common = { quoteRowId: quote.id, atMs };
  const events: NewQuoteEvent[] = [];
  if (anomaly !== null) {
    events.push({ ...common, kind: 'observation_rejected', reason: anomaly, reportedState });
  }
  if (isStateChange(transition)) {
    events.push({ ...common, kind: 'state', from: quote.state, to: transition.state, source });
  }
  return events;
}
