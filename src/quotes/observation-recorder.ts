import type { Clock } from '../clock.ts';
import { isConstraintViolation } from '../database/sql.ts';
import { type Logger, logMilestone } from '../log.ts';
import type { MintAnomalyCounter } from '../mints/mint-anomalies.ts';
import type { QuoteObservation } from '../mints/quote-responses.ts';
import type { PaymentCounter } from '../recipients/user-store.ts';
import type { Store, TransactionStore } from '../store.ts';
import type { NewQuoteEvent, QuoteEventDetail } from './quote-event-store.ts';
import { encodeQuoteUpdates, QUOTE_UPDATES_CHANNEL } from './quote-notifications.ts';
import {
  computeNextPaidAtMs,
  computeWatchUntilMs,
  decideTransition,
  isPaidQuoteState,
  type QuoteTransition,
} from './quote-state.ts';
import type { QuoteChange, StoredQuote } from './watched-quote-store.ts';

export type ObservationSource = 'socket' | 'poll';

export interface SourcedObservation extends QuoteObservation {
  source: ObservationSource;
  /** The watch period is over: if nothing changed, this observation ends the watch. */
  shouldEndWatch?: boolean;
}

/** A quote after its observation was recorded. */
export interface RecordedQuote extends Pick<StoredQuote, 'quoteId' | 'state' | 'paidAtMs'> {
  isWatched: boolean;
  hasStateChanged: boolean;
  source: ObservationSource;
}

export interface RecordedPayment extends Pick<StoredQuote, 'request' | 'paymentHash'> {
  quoteRowId: number;
  /** Milliseconds since 1970. */
  paidAtMs: number;
}

export interface SignedReceipt {
  /** The id of its event, hex. */
  id: string;
  relayUrls: readonly string[];
  paymentHash: string | null;
}

export interface ReceiptSigner {
  /** Signs and stores zap receipts in the transaction that records the payments. */
  signReceipts(
    tx: TransactionStore,
    payments: readonly RecordedPayment[],
    nowMs: number,
  ): Promise<SignedReceipt[]>;
}

export interface ObservationRecorderDeps {
  store: Store;
  anomalies: Pick<MintAnomalyCounter, 'report'>;
  /** Null if the operator has no zap key. */
  zaps: {
    receipts: ReceiptSigner;
    /** Called after the commit. */
    onReceiptsCreated: () => void;
  } | null;
  clock: Clock;
  log: Logger;
}

interface ObservationDecision {
  quote: StoredQuote;
  observation: SourcedObservation;
  transition: QuoteTransition;
  /** Why the observation is rejected; null if it is accepted. */
  anomaly: Extract<QuoteEventDetail, { kind: 'observation_rejected' }>['reason'] | null;
  /** Null: nothing to write. */
  change: QuoteChange | null;
}

/**
 * Records what mints report about quotes, over the WebSocket and in polls. Recording is idempotent:
 * observations may arrive in any order, any number of times.
 */
export class ObservationRecorder {
  readonly #deps: ObservationRecorderDeps;

  constructor(deps: ObservationRecorderDeps) {
    this.#deps = deps;
  }

  /**
   * Records observations of one mint in one transaction: locks the rows, decides, writes and
   * notifies. A first payment is appended to the recipient's list and, if it is a zap, gets a
   * signed receipt.
   *
   * @param observations at most one per quote
   * @returns the quotes as they are now, without unknown ones
   */
  async record(
    mintUrl: string,
    observations: readonly SourcedObservation[],
  ): Promise<RecordedQuote[]> {
    try {
      const { decisions, receipts } = await this.#deps.store.transaction((tx) =>
        this.#recordInTransaction(tx, mintUrl, observations),
      );
      this.#reportCommitted(mintUrl, decisions, receipts);
      return decisions.map(toRecordedQuote);
    } catch (error) {
      if (isConstraintViolation(error)) {
        return await this.#recordIndividually(mintUrl, observations, error);
      }
      throw error;
    }
  }

  /** Locks recipients before quotes, both in a fixed order, to avoid deadlocks. */
  async #recordInTransaction(
    tx: TransactionStore,
    mintUrl: string,
    observations: readonly SourcedObservation[],
  ): Promise<{ decisions: ObservationDecision[]; receipts: SignedReceipt[] }> {
    const observationsById = new Map(observations.map((each) => [each.quoteId, each]));
    const quoteIds = [...observationsById.keys()];
    const unpaidRecipients = (await tx.watchedQuotes.findByQuoteIds(mintUrl, quoteIds))
      .filter(({ state }) => !isPaidQuoteState(state))
      .map(({ pubkey }) => pubkey);
    const lockedCounters = await tx.users.lockPaymentCounters(unpaidRecipients);
    const counters = new Map(lockedCounters.map((each) => [each.pubkey, each]));
    const lockedQuotes = await tx.watchedQuotes.lockByQuoteIds(mintUrl, quoteIds);

    const { clock, zaps } = this.#deps;
    const nowMs = clock();
    const decisions = lockedQuotes.map((quote) => {
      const observation = observationsById.get(quote.quoteId) as SourcedObservation;
      return decideObservation(quote, observation, counters, nowMs);
    });
    const payments = decisions.flatMap(({ quote, change }) => {
      const { id: quoteRowId, request, paymentHash, pubkey } = quote;
      const paidAtMs = change?.payment?.paidAtMs;
      return paidAtMs === undefined ? [] : [{ quoteRowId, request, paymentHash, paidAtMs, pubkey }];
    });
    const paidPubkeys = new Set(payments.map(({ pubkey }) => pubkey));

    await tx.watchedQuotes.applyChanges(decisions.flatMap(({ change }) => change ?? []));
    await tx.users.savePaymentCounters(
      lockedCounters.filter(({ pubkey }) => paidPubkeys.has(pubkey)),
    );
    await tx.quoteEvents.add(decisions.flatMap((decision) => toQuoteEvents(decision, nowMs)));
    const receipts =
      zaps === null || payments.length === 0
        ? []
        : await zaps.receipts.signReceipts(tx, payments, nowMs);
    const changedListEntries = decisions
      .filter(({ transition }) => 'state' in transition && isPaidQuoteState(transition.state))
      .map(({ quote }) => quote);
    await tx.notify(QUOTE_UPDATES_CHANNEL, encodeQuoteUpdates(changedListEntries));
    return { decisions, receipts };
  }

  /** Runs after the commit, so that a retried transaction reports nothing twice. */
  #reportCommitted(
    mintUrl: string,
    decisions: readonly ObservationDecision[],
    receipts: readonly SignedReceipt[],
  ): void {
    const { anomalies, zaps, log } = this.#deps;
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
    for (const { paymentHash, id, relayUrls } of receipts) {
      logMilestone(log, 'receipt_signed', paymentHash, { receipt: id, relays: relayUrls.length });
    }
    if (receipts.length > 0) {
      zaps?.onReceiptsCreated();
    }
  }

  /**
   * Records each observation in its own transaction, so that rows that were edited by hand block
   * only their own payments. Those stay watched until an operator repairs the rows.
   */
  async #recordIndividually(
    mintUrl: string,
    observations: readonly SourcedObservation[],
    error: unknown,
  ): Promise<RecordedQuote[]> {
    const [observation] = observations;
    if (observation === undefined || observations.length > 1) {
      const recorded: RecordedQuote[] = [];
      for (const each of observations) {
        recorded.push(...(await this.record(mintUrl, [each])));
      }
      return recorded;
    }
    const { store, log } = this.#deps;
    const stored = await store.watchedQuotes.findByQuoteIds(mintUrl, [observation.quoteId]);
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
}

/** Decides about one quote. A first payment advances its recipient's counter. */
function decideObservation(
  quote: StoredQuote,
  observation: SourcedObservation,
  counters: ReadonlyMap<string, PaymentCounter>,
  nowMs: number,
): ObservationDecision {
  const shouldEndWatch = observation.shouldEndWatch === true;
  const isCredible = matchesStoredQuote(quote, observation);
  const currentState = quote.state === 'EXPIRED' ? 'UNPAID' : quote.state;
  const transition = decideTransition(
    quote.state,
    isCredible ? observation.state : currentState,
    shouldEndWatch,
  );
  let anomaly: ObservationDecision['anomaly'] = null;
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

/** Compares amount and invoice. Imported quotes may have no invoice. */
function matchesStoredQuote(quote: StoredQuote, observation: QuoteObservation): boolean {
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
  counter.lastPaidAtMs = computeNextPaidAtMs(counter.lastPaidAtMs, nowMs);
  return { paidAtMs: counter.lastPaidAtMs, paidSeq: counter.paidCount };
}

function toQuoteEvents(
  { quote, observation, transition, anomaly }: ObservationDecision,
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

function toRecordedQuote(decision: ObservationDecision): RecordedQuote {
  const { quote, observation, transition, change } = decision;
  return {
    quoteId: quote.quoteId,
    state: change?.state ?? quote.state,
    paidAtMs: change?.payment?.paidAtMs ?? quote.paidAtMs,
    isWatched: (change ?? quote).watchUntilMs !== null,
    hasStateChanged: 'state' in transition,
    source: observation.source,
  };
}
