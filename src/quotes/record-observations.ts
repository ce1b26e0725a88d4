import type { Clock } from '../clock.ts';
import { isConstraintViolation } from '../database/sql.ts';
import type { Log } from '../log.ts';
import type { MintAnomalies } from '../mints/mint-anomalies.ts';
import type { PaymentCounter } from '../recipients/user-store.ts';
import type { Store, TransactionStore } from '../store.ts';
import { logMilestone, type Milestone } from './milestones.ts';
import { watchUntilMs } from './poll-schedule.ts';
import { isPaidState, nextPaidAtMs, type Transition, transition } from './quote.ts';
import type { QuoteObservation } from '../mints/quote-answer.ts';
import type { QuoteState } from '../database/schema.ts';
import { encodeUpdates, QUOTE_CHANNEL } from './quote-channel.ts';
import type { NewQuoteEvent, QuoteEventDetail } from './quote-event-store.ts';
import type { HeldQuote, QuoteChange } from './quote-watch-store.ts';

export type ObservationSource = 'socket' | 'poll';

export interface NewObservation extends QuoteObservation {
  source: ObservationSource;
  /** The time to watch the quote is over: without news, this answer ends the watch. */
  endsWatch?: boolean;
}

/** A quote after its observation was recorded. */
export interface RecordedQuote {
  quoteId: string;
  state: QuoteState;
  /** Milliseconds since 1970; null before the payment. */
  paidAtMs: number | null;
  isWatched: boolean;
  /** Whether this observation changed the state. */
  isNews: boolean;
  source: ObservationSource;
}

/** A payment that is being recorded. */
export interface RecordedPayment {
  /** `quotes.id`. */
  quote: number;
  /** The BOLT11 invoice that was paid. */
  request: string;
  /** Hex; null if the invoice of an older row could not be read. */
  paymentHash: string | null;
  /** Milliseconds since 1970. */
  paidAtMs: number;
}

/** A zap receipt that was signed and stored. */
export interface SignedReceipt {
  /** The id of its event, hex. */
  id: string;
  /** The relays it is sent to. */
  relays: readonly string[];
  /** Hex; null if the invoice of an older row could not be read. */
  paymentHash: string | null;
}

/** Signs the zap receipts of payments, in the transaction that records the payments. */
export interface ReceiptSigner {
  make(
    tx: TransactionStore,
    payments: readonly RecordedPayment[],
    nowMs: number,
  ): Promise<SignedReceipt[]>;
}

export interface RecordObservationsParts {
  store: Store;
  anomalies: Pick<MintAnomalies, 'report'>;
  /** Null if the operator has no zap key. */
  zaps: {
    receipts: ReceiptSigner;
    /** Called after the commit of new receipts, which are due. */
    onReceipts: () => void;
  } | null;
  clock: Clock;
  log: Log;
}

/** What an observation means for a quote that we hold. */
interface Decision {
  quote: HeldQuote;
  observation: NewObservation;
  transition: Transition;
  /** Why the mint is not believed; null if it is. */
  anomaly: Extract<QuoteEventDetail, { kind: 'disbelieved' }>['reason'] | null;
  /** What to write about the quote; null: nothing. */
  change: QuoteChange | null;
}

interface Written {
  decisions: Decision[];
  receipts: SignedReceipt[];
}

/**
 * Records what mints report about quotes. WebSocket and polls both end here, in any order and any number
 * of times; what is known already changes nothing.
 */
export class RecordObservations {
  readonly #parts: RecordObservationsParts;

  constructor(parts: RecordObservationsParts) {
    this.#parts = parts;
  }

  /**
   * Records a batch of one mint's observations in one transaction: locks the rows, decides, writes and
   * notifies. A first payment gets its place in the recipient's list, and its receipt if it is a zap.
   *
   * @param observations at most one for each quote
   * @returns the quotes as they are now; quotes that we do not hold are left out
   */
  async record(mintUrl: string, observations: readonly NewObservation[]): Promise<RecordedQuote[]> {
    if (observations.length === 0) {
      return [];
    }
    let written: Written;
    try {
      written = await this.#parts.store.transaction((tx) => this.#write(tx, mintUrl, observations));
    } catch (error) {
      if (isConstraintViolation(error)) {
        return await this.#recordSeparately(mintUrl, observations, error);
      }
      throw error;
    }
    this.#committed(mintUrl, written);
    return written.decisions.map(recordedQuote);
  }

  /**
   * Recipients are locked before quotes, and both in a fixed order, so that concurrent transactions never
   * deadlock.
   */
  async #write(
    tx: TransactionStore,
    mintUrl: string,
    observations: readonly NewObservation[],
  ): Promise<Written> {
    const observed = new Map(observations.map((each) => [each.quoteId, each]));
    const quoteIds = [...observed.keys()];
    const recipients = (await tx.watch.findHeld(mintUrl, quoteIds))
      .filter(({ state }) => !isPaidState(state))
      .map(({ pubkey }) => pubkey);
    const counters = new Map(
      (await tx.users.lockPaymentCounters(recipients)).map((each) => [each.pubkey, each]),
    );
    const held = await tx.watch.lockHeld(mintUrl, quoteIds);

    const { clock, zaps } = this.#parts;
    const nowMs = clock();
    const decisions = held.map((quote) =>
      decide(quote, observed.get(quote.quoteId) as NewObservation, counters, nowMs),
    );
    const payments = decisions.flatMap(paymentOf);
    const paidPubkeys = new Set(
      decisions.filter(({ change }) => change?.payment).map(({ quote }) => quote.pubkey),
    );

    await tx.watch.applyChanges(decisions.flatMap(({ change }) => change ?? []));
    await tx.users.savePaymentCounters(
      [...counters.values()].filter(({ pubkey }) => paidPubkeys.has(pubkey)),
    );
    await tx.events.add(decisions.flatMap((decision) => eventsOf(decision, nowMs)));
    const receipts =
      zaps === null || payments.length === 0 ? [] : await zaps.receipts.make(tx, payments, nowMs);
    const listed = decisions.filter(changesList).map(({ quote }) => quote);
    await tx.notify(QUOTE_CHANNEL, encodeUpdates(listed));
    return { decisions, receipts };
  }

  /** Reports what was committed. A transaction that is rolled back and tried again reports nothing twice. */
  #committed(mintUrl: string, { decisions, receipts }: Written): void {
    const { anomalies, zaps, log } = this.#parts;
    for (const { quote, observation, transition: next, anomaly } of decisions) {
      if (anomaly !== null) {
        anomalies.report(mintUrl, anomaly);
      }
      const { paymentHash, pubkey, amountSat } = quote;
      const { source } = observation;
      for (const milestone of milestonesOf(next)) {
        logMilestone(log, milestone, paymentHash, { pubkey, amountSat, mintUrl, source });
      }
    }
    for (const { paymentHash, id, relays } of receipts) {
      const detail = { receipt: id, relays: relays.length };
      logMilestone(log, 'receipt_signed', paymentHash, detail);
    }
    if (receipts.length > 0) {
      zaps?.onReceipts();
    }
  }

  /**
   * Records each observation alone. Rows that were edited by hand can contradict a payment; then only the
   * payments of these rows are left out. They stay watched, and are recorded once an operator has repaired
   * the rows.
   */
  async #recordSeparately(
    mintUrl: string,
    observations: readonly NewObservation[],
    error: unknown,
  ): Promise<RecordedQuote[]> {
    const [first] = observations;
    if (first !== undefined && observations.length === 1) {
      const held = await this.#parts.store.watch.findHeld(mintUrl, [first.quoteId]);
      this.#parts.log.error(
        { event: 'quote_rows_inconsistent', err: error, mintUrl, quotes: held.map(({ id }) => id) },
        'cannot record a payment: the rows of its quote and recipient contradict each other; ' +
          'the next poll will try again',
      );
      return held.map((quote) => recordedQuote(undecided(quote, first)));
    }
    const recorded: RecordedQuote[] = [];
    for (const observation of observations) {
      recorded.push(...(await this.record(mintUrl, [observation])));
    }
    return recorded;
  }
}

/** Decides about one quote. A first payment takes the next place of its recipient's counter. */
function decide(
  quote: HeldQuote,
  observation: NewObservation,
  counters: ReadonlyMap<string, PaymentCounter>,
  nowMs: number,
): Decision {
  const endsWatch = observation.endsWatch === true;
  const isCredible = isSameQuote(quote, observation);
  const known = quote.state === 'EXPIRED' ? 'UNPAID' : quote.state;
  const next = transition(quote.state, isCredible ? observation.state : known, endsWatch);
  const decision = { ...undecided(quote, observation), transition: next };
  if (!isCredible) {
    decision.anomaly = 'another_amount_or_invoice';
  } else if (next.outcome === 'backwards') {
    decision.anomaly = 'backwards';
  }
  if ('state' in next) {
    const payment = next.outcome === 'payment_appeared' ? nextPlace(counters, quote, nowMs) : null;
    const paidAtMs = payment?.paidAtMs ?? quote.paidAtMs;
    const until = watchUntilMs({ ...quote, state: next.state, paidAtMs });
    decision.change = { id: quote.id, state: next.state, watchUntilMs: until, payment };
  } else if (endsWatch && quote.watchUntilMs !== null) {
    decision.change = { id: quote.id, state: quote.state, watchUntilMs: null, payment: null };
  }
  return decision;
}

function undecided(quote: HeldQuote, observation: NewObservation): Decision {
  return { quote, observation, transition: { outcome: 'unchanged' }, anomaly: null, change: null };
}

/** Whether the mint reports the amount and invoice of the quote. An imported quote may have no invoice. */
function isSameQuote(quote: HeldQuote, observation: QuoteObservation): boolean {
  return (
    (observation.amountSat ?? quote.amountSat) === quote.amountSat &&
    (quote.request === '' ||
      (observation.request ?? quote.request).toLowerCase() === quote.request.toLowerCase())
  );
}

function nextPlace(
  counters: ReadonlyMap<string, PaymentCounter>,
  { pubkey }: HeldQuote,
  nowMs: number,
): { paidAtMs: number; paidSeq: number } {
  const counter = counters.get(pubkey);
  if (counter === undefined) {
    throw new Error('a first payment needs the locked counter of its recipient');
  }
  counter.paidCount += 1;
  counter.lastPaidAtMs = nextPaidAtMs(counter.lastPaidAtMs, nowMs);
  return { paidAtMs: counter.lastPaidAtMs, paidSeq: counter.paidCount };
}

function paymentOf({ quote, change }: Decision): RecordedPayment[] {
  const { id, request, paymentHash } = quote;
  const paidAtMs = change?.payment?.paidAtMs;
  return paidAtMs === undefined ? [] : [{ quote: id, request, paymentHash, paidAtMs }];
}

/** What the history of the quote stores of a decision. */
function eventsOf(
  { quote, observation, transition: next, anomaly }: Decision,
  atMs: number,
): NewQuoteEvent[] {
  const of = { id: quote.id, atMs };
  const events: NewQuoteEvent[] = [];
  if (anomaly !== null) {
    events.push({ ...of, kind: 'disbelieved', reason: anomaly, said: observation.state });
  }
  if ('state' in next) {
    const { source } = observation;
    events.push({ ...of, kind: 'state', from: quote.state, to: next.state, source });
  }
  return events;
}

/** Whether the recipient's list changes, so that sockets are sent an `update`. */
function changesList({ transition: next }: Decision): boolean {
  return 'state' in next && isPaidState(next.state);
}

/** A payment that is first seen when it is collected has reached both milestones. */
function milestonesOf(next: Transition): Milestone[] {
  if (!('state' in next)) {
    return [];
  }
  return [
    ...(next.outcome === 'payment_appeared' ? (['paid'] as const) : []),
    ...(next.state === 'ISSUED' ? (['collected'] as const) : []),
    ...(next.state === 'EXPIRED' ? (['expired'] as const) : []),
  ];
}

function recordedQuote({ quote, observation, transition: next, change }: Decision): RecordedQuote {
  return {
    quoteId: quote.quoteId,
    state: change?.state ?? quote.state,
    paidAtMs: change?.payment?.paidAtMs ?? quote.paidAtMs,
    isWatched: (change ?? quote).watchUntilMs !== null,
    isNews: 'state' in next,
    source: observation.source,
  };
}
