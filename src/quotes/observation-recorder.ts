import type { Clock } from '../clock.ts';
import { isConstraintViolation } from '../database/sql.ts';
import { type Db, notify, type Tx, transaction } from '../database/transaction.ts';
import { type Logger, logMilestone } from '../log.ts';
import type { MintAnomalyCounter } from '../mints/mint-anomalies.ts';
import type { QuoteObservation } from '../mints/quote-responses.ts';
import {
  lockPaymentCounters,
  type PaymentCounter,
  savePaymentCounters,
} from '../recipients/user-store.ts';
import { encodeQuoteUpdates, QUOTE_UPDATES_CHANNEL } from './process-notifications.ts';
import {
  addQuoteEvents,
  type NewQuoteEvent,
  type ReceiptRefusal,
  type RejectionReason,
} from './quote-event-store.ts';
import {
  computePaidAtMs,
  computeWatchUntilMs,
  decideTransition,
  isPaidQuoteState,
  type QuoteTransition,
} from './quote-state.ts';
import {
  applyQuoteChanges,
  findQuotesById,
  lockQuotesById,
  type QuoteChange,
  type StoredQuote,
} from './watched-quote-store.ts';

/**
 * Records what a mint reports about quotes, over its WebSocket and in polls, in one transaction. Reports may arrive in
 * any order and any number of times. Appends a new payment to the recipient's list, signs its zap receipt if the
 * payment is a zap, and notifies all processes.
 *
 * A report that contradicts the database's constraints changes nothing if it is recorded alone, and fails its batch
 * otherwise. The caller repeats a failed batch one by one.
 *
 * @param observations at most one per quote
 * @returns the new states of the quotes; leaves out unknown quotes
 */
export async function recordObservations(
  context: RecordingContext,
  mintUrl: string,
  observations: readonly SourcedObservation[],
): Promise<RecordedQuote[]> {
  try {
    const { decisions, receipts } = await transaction(context.db, (tx) =>
      recordInTransaction(context, tx, mintUrl, observations),
    );
    // After the commit, so that a transaction that is rolled back reports nothing.
    reportDecisions(context, mintUrl, decisions);
    reportReceipts(context, receipts);
    return decisions.map(toRecordedQuote);
  } catch (error) {
    const [observation] = observations;
    if (observation !== undefined && observations.length === 1 && isConstraintViolation(error)) {
      return await reportInconsistentRows(context, mintUrl, observation, error);
    }
    throw error;
  }
}

export interface RecordingContext {
  db: Db;
  anomalies: Pick<MintAnomalyCounter, 'report'>;
  /** Null if zaps are disabled. */
  zaps: {
    signReceipts: SignReceipts;
    /** Called after the commit, with the relays of the receipts. */
    onReceiptsCreated: (relayUrls: readonly string[]) => void;
  } | null;
  clock: Clock;
  log: Logger;
}

export type ObservationSource = 'socket' | 'poll';

export interface SourcedObservation extends QuoteObservation {
  source: ObservationSource;
  /** Whether the service stops watching the quote if this observation changes nothing. */
  shouldEndWatch?: boolean;
}

/** The state of a quote after an observation was recorded. */
export interface RecordedQuote extends Pick<StoredQuote, 'quoteId' | 'state' | 'paidAtMs'> {
  isWatched: boolean;
  hasStateChanged: boolean;
  /** Whether the observation contradicts the stored quote. */
  isRejected: boolean;
  source: ObservationSource;
}

/** Signs and stores the zap receipts of payments at one mint, in the transaction that records the payments. */
export type SignReceipts = (
  tx: Tx,
  mintUrl: string,
  payments: readonly RecordedPayment[],
  nowMs: number,
) => Promise<ReceiptSigningResult>;

export interface RecordedPayment extends Pick<StoredQuote, 'pubkey' | 'request' | 'paymentHash'> {
  quoteRowId: number;
  /** Milliseconds since 1970. */
  paidAtMs: number;
}

export interface ReceiptSigningResult {
  /** With the id of the signed event, hex. */
  signed: { id: string; relayUrls: readonly string[]; paymentHash: string | null }[];
  refused: { paymentHash: string | null; reason: ReceiptRefusal }[];
}

/** What an observation means for a stored quote. */
interface Decision {
  quote: StoredQuote;
  observation: SourcedObservation;
  transition: QuoteTransition;
  /** Why the observation is rejected; null if it is accepted. */
  anomaly: RejectionReason | null;
  /** What to write; null if nothing changed. */
  change: QuoteChange | null;
}

/** Locks the rows of recipients before those of quotes, both in a fixed order, to avoid deadlocks. */
async function recordInTransaction(
  { zaps, clock }: RecordingContext,
  tx: Tx,
  mintUrl: string,
  observations: readonly SourcedObservation[],
): Promise<{ decisions: Decision[]; receipts: ReceiptSigningResult }> {
  const observationsById = new Map(observations.map((each) => [each.quoteId, each]));
  const quoteIds = [...observationsById.keys()];
  const unpaid = (await findQuotesById(tx, mintUrl, quoteIds)).filter(
    ({ state }) => !isPaidQuoteState(state),
  );
  const lockedCounters = await lockPaymentCounters(
    tx,
    unpaid.map(({ pubkey }) => pubkey),
  );
  const counters = new Map(lockedCounters.map((each) => [each.pubkey, each]));
  const lockedQuotes = await lockQuotesById(tx, mintUrl, quoteIds);

  const nowMs = clock();
  const decisions = lockedQuotes.map((quote) => {
    const observation = observationsById.get(quote.quoteId) as SourcedObservation;
    return decideObservation(quote, observation, counters, nowMs);
  });
  const payments = decisions.flatMap(({ quote, change }): RecordedPayment[] => {
    const { id: quoteRowId, request, paymentHash, pubkey } = quote;
    const paidAtMs = change?.payment?.paidAtMs;
    return paidAtMs === undefined ? [] : [{ quoteRowId, request, paymentHash, paidAtMs, pubkey }];
  });
  const paidPubkeys = new Set(payments.map(({ pubkey }) => pubkey));

  await applyQuoteChanges(
    tx,
    decisions.flatMap(({ change }) => change ?? []),
  );
  await savePaymentCounters(
    tx,
    lockedCounters.filter(({ pubkey }) => paidPubkeys.has(pubkey)),
  );
  await addQuoteEvents(
    tx,
    decisions.flatMap((decision) => toQuoteEvents(decision, nowMs)),
  );
  const receipts =
    zaps === null || payments.length === 0
      ? { signed: [], refused: [] }
      : await zaps.signReceipts(tx, mintUrl, payments, nowMs);
  const updates = decisions.flatMap(({ quote, transition, change }) => {
    const paidAtMs = change?.payment?.paidAtMs ?? quote.paidAtMs;
    if (!('state' in transition) || paidAtMs === null) {
      return [];
    }
    return [{ ...quote, listedAtMs: paidAtMs > nowMs ? paidAtMs : null }];
  });
  await notify(tx, QUOTE_UPDATES_CHANNEL, encodeQuoteUpdates(updates));
  return { decisions, receipts };
}

/** Decides what an observation changes. Advances the recipient's counter if the observation reports a new payment. */
function decideObservation(
  quote: StoredQuote,
  observation: SourcedObservation,
  counters: ReadonlyMap<string, PaymentCounter>,
  nowMs: number,
): Decision {
  const shouldEndWatch = observation.shouldEndWatch === true;
  const isCredible = hasStoredAmountAndInvoice(quote, observation);
  const currentState = quote.state === 'EXPIRED' ? 'UNPAID' : quote.state;
  const transition = decideTransition(
    quote.state,
    isCredible ? observation.state : currentState,
    shouldEndWatch,
  );
  let anomaly: Decision['anomaly'] = null;
  if (!isCredible) {
    anomaly = 'amount_or_invoice_mismatch';
  } else if (transition.outcome === 'state_regression') {
    anomaly = 'state_regression';
  }
  let change: QuoteChange | null = null;
  if ('state' in transition) {
    const { outcome, state } = transition;
    const payment =
      outcome === 'payment_received' ? advancePaymentCounter(counters, quote, nowMs) : null;
    const paidAtMs = payment?.paidAtMs ?? quote.paidAtMs;
    const watchUntilMs = computeWatchUntilMs({ ...quote, state, paidAtMs });
    change = { id: quote.id, state, watchUntilMs, payment };
  } else if (shouldEndWatch && quote.watchUntilMs !== null) {
    change = { id: quote.id, state: quote.state, watchUntilMs: null, payment: null };
  }
  return { quote, observation, transition, anomaly, change };
}

/** An imported quote may have no invoice to compare. */
function hasStoredAmountAndInvoice(quote: StoredQuote, observation: QuoteObservation): boolean {
  return (
    (observation.amountSat ?? quote.amountSat) === quote.amountSat &&
    (quote.request === '' ||
      (observation.request ?? quote.request).toLowerCase() === quote.request.toLowerCase())
  );
}

function advancePaymentCounter(
  counters: ReadonlyMap<string, PaymentCounter>,
  { pubkey }: StoredQuote,
  nowMs: number,
): QuoteChange['payment'] {
  const counter = counters.get(pubkey);
  if (counter === undefined) {
    throw new Error('a first payment needs the locked counter of its recipient');
  }
  counter.paidCount += 1;
  counter.lastPaidAtMs = computePaidAtMs(counter, nowMs);
  return { paidAtMs: counter.lastPaidAtMs, paidSeq: counter.paidCount };
}

function toQuoteEvents(
  { quote, observation, transition, anomaly }: Decision,
  atMs: number,
): NewQuoteEvent[] {
  const { state: reportedState, source } = observation;
  const common = { quoteRowId: quote.id, atMs };
  const events: NewQuoteEvent[] = [];
  if (anomaly !== null) {
    events.push({ ...common, kind: 'observation_rejected', reason: anomaly, reportedState });
  }
  if ('state' in transition) {
    events.push({ ...common, kind: 'state', from: quote.state, to: transition.state, source });
  }
  return events;
}

function reportDecisions(
  { anomalies, log }: RecordingContext,
  mintUrl: string,
  decisions: readonly Decision[],
): void {
  for (const { quote, observation, transition, anomaly } of decisions) {
    if (anomaly !== null) {
      anomalies.report(mintUrl, anomaly);
    }
    const { paymentHash, pubkey, amountSat } = quote;
    const detail = { pubkey, amountSat, mintUrl, source: observation.source };
    if (transition.outcome === 'payment_received') {
      logMilestone(log, 'paid', paymentHash, detail);
    }
    // A payment that is first observed as ISSUED reaches two milestones.
    if ('state' in transition && transition.state === 'ISSUED') {
      logMilestone(log, 'issued', paymentHash, detail);
    }
    if (transition.outcome === 'expired') {
      logMilestone(log, 'expired', paymentHash, detail);
    }
  }
}

function reportReceipts(
  { zaps, log }: RecordingContext,
  { signed, refused }: ReceiptSigningResult,
): void {
  for (const { paymentHash, id, relayUrls } of signed) {
    logMilestone(log, 'receipt_signed', paymentHash, { receipt: id, relays: relayUrls.length });
  }
  for (const { paymentHash, reason } of refused) {
    logMilestone(log, 'receipt_refused', paymentHash, { reason });
  }
  if (signed.length > 0) {
    zaps?.onReceiptsCreated(signed.flatMap(({ relayUrls }) => relayUrls));
  }
}

/** The rows were edited by hand. The quote stays watched until an operator repairs them. */
async function reportInconsistentRows(
  { db, log }: RecordingContext,
  mintUrl: string,
  observation: SourcedObservation,
  error: unknown,
): Promise<RecordedQuote[]> {
  const stored = await findQuotesById(db, mintUrl, [observation.quoteId]);
  log.error(
    { event: 'quote_rows_inconsistent', err: error, mintUrl, quotes: stored.map(({ id }) => id) },
    'cannot record a payment: the rows of its quote and recipient contradict each other; ' +
      'the next poll will try again',
  );
  const transition = { outcome: 'unchanged' } as const;
  return stored.map((quote) =>
    toRecordedQuote({ quote, observation, transition, anomaly: null, change: null }),
  );
}

function toRecordedQuote(decision: Decision): RecordedQuote {
  const { quote, observation, transition, anomaly, change } = decision;
  return {
    quoteId: quote.quoteId,
    state: change?.state ?? quote.state,
    paidAtMs: change?.payment?.paidAtMs ?? quote.paidAtMs,
    isWatched: (change ?? quote).watchUntilMs !== null,
    hasStateChanged: 'state' in transition,
    isRejected: anomaly !== null,
    source: observation.source,
  };
}
