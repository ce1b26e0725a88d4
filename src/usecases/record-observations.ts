import type { Clock } from '../domain/clock.ts';
import { nextPaidAtMs } from '../domain/payment-time.ts';
import { watchUntilMs } from '../domain/poll-schedule.ts';
import { isPaidState, type QuoteObservation, type QuoteState } from '../domain/quote.ts';
import type { QuoteEventDetail } from '../domain/quote-event.ts';
import { type Transition, transition } from '../domain/quote-transition.ts';
import type { Log } from '../log.ts';
import type { MintAnomalies } from '../mint/mint-anomalies.ts';
import { encodeUpdates, QUOTE_CHANNEL } from '../notifications/quote-channel.ts';
import { isConstraintViolation } from '../store/database.ts';
import type { NewQuoteEvent } from '../store/quote-event-store.ts';
import type { HeldQuote, QuoteChange } from '../store/quote-watch-store.ts';
import type { Store, TransactionStore } from '../store/store.ts';
import type { PaymentCounter } from '../store/user-store.ts';
import { logMilestone, type Milestone } from './milestones.ts';
import type { MadeReceipts, RecordedPayment, ZapReceipts } from './zap-receipts.ts';

/** Where an observation came from. */
export type ObservationSource = 'socket' | 'poll';

/** An observation to record. */
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

/** What recording needs for zaps. */
interface ZapParts {
  receipts: ZapReceipts;
  /** Called after the commit with the relays (normalised URLs) that receipts are due at. */
  onReceipts: (relays: readonly string[]) => void;
}

/** What a transaction has written. */
interface Written {
  recorded: RecordedQuote[];
  /** `quotes.id` of each quote that changed. */
  changedIds: number[];
  milestones: { milestone: Milestone; quote: HeldQuote; source: ObservationSource }[];
  receipts: MadeReceipts;
}

/** An observation of a quote that we hold, and what it means. */
interface Decision {
  quote: HeldQuote;
  observation: NewObservation;
  transition: Transition;
  /** Why the mint is not believed; null if it is. */
  disbelieved: Extract<QuoteEventDetail, { kind: 'disbelieved' }>['reason'] | null;
}

const NO_RECEIPTS: MadeReceipts = { receipts: [], dueAt: [] };

/**
 * Records what mints report about quotes. WebSocket and polls both end here, in any order and any number
 * of times; what is known already changes nothing.
 */
export class RecordObservations {
  readonly #store: Store;
  readonly #anomalies: MintAnomalies;
  readonly #zaps: ZapParts | null;
  readonly #onChanged: (quote: number) => void;
  readonly #clock: Clock;
  readonly #log: Log;

  /**
   * @param parts.zaps null if the operator has no zap key
   * @param parts.onChanged called after a commit for each quote (`quotes.id`) that changed
   */
  constructor(parts: {
    store: Store;
    anomalies: MintAnomalies;
    zaps: ZapParts | null;
    onChanged?: (quote: number) => void;
    clock: Clock;
    log: Log;
  }) {
    this.#store = parts.store;
    this.#anomalies = parts.anomalies;
    this.#zaps = parts.zaps;
    this.#onChanged = parts.onChanged ?? (() => {});
    this.#clock = parts.clock;
    this.#log = parts.log;
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
      written = await this.#store.transaction((tx) => this.#write(tx, mintUrl, observations));
    } catch (error) {
      return await this.#recordSeparately(mintUrl, observations, error);
    }
    for (const { milestone, quote, source } of written.milestones) {
      const { paymentHash, pubkey, amountSat } = quote;
      logMilestone(this.#log, milestone, paymentHash, { pubkey, amountSat, mintUrl, source });
    }
    written.changedIds.forEach(this.#onChanged);
    for (const { paymentHash, id, relays } of written.receipts.receipts) {
      logMilestone(this.#log, 'receipt_signed', paymentHash, { receipt: id, relays });
    }
    if (written.receipts.dueAt.length > 0) {
      this.#zaps?.onReceipts(written.receipts.dueAt);
    }
    return written.recorded;
  }

  /**
   * Rows that were edited by hand can contradict a payment. Then each observation is recorded alone, so
   * that only the payments of that row are left out. They stay watched, and are recorded once an operator
   * has repaired the rows.
   */
  async #recordSeparately(
    mintUrl: string,
    observations: readonly NewObservation[],
    error: unknown,
  ): Promise<RecordedQuote[]> {
    if (!isConstraintViolation(error)) {
      throw error;
    }
    const [first] = observations;
    if (first !== undefined && observations.length === 1) {
      const held = await this.#store.watch.findHeld(mintUrl, [first.quoteId]);
      this.#log.error(
        { event: 'quote_rows_inconsistent', err: error, mintUrl, quotes: held.map(({ id }) => id) },
        'cannot record a payment: the rows of its quote and recipient contradict each other; ' +
          'the next poll will try again',
      );
      const unchanged = { outcome: 'unchanged' } as const;
      return held.map((quote) =>
        recordedQuote({ quote, observation: first, transition: unchanged, disbelieved: null }, []),
      );
    }
    const recorded: RecordedQuote[] = [];
    for (const observation of observations) {
      recorded.push(...(await this.record(mintUrl, [observation])));
    }
    return recorded;
  }

  /**
   * Recipients are locked before quotes, and both in a fixed order, so that transactions wait for each
   * other but never in a circle.
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
    const nowMs = this.#clock();
    const decisions = held.map((quote) =>
      decide(quote, observed.get(quote.quoteId) as NewObservation),
    );
    const changes = decisions.flatMap((decision) => changeOf(decision, counters, nowMs));
    await tx.watch.applyChanges(changes);
    const paid = decisions.filter((each) => each.transition.outcome === 'payment_appeared');
    const paidPubkeys = new Set(paid.map(({ quote }) => quote.pubkey));
    await tx.users.savePaymentCounters(
      [...counters.values()].filter(({ pubkey }) => paidPubkeys.has(pubkey)),
    );
    await this.#keepHistory(tx, mintUrl, decisions, nowMs);
    const receipts = await this.#makeReceipts(tx, held, changes, nowMs);
    await tx.notify(
      QUOTE_CHANNEL,
      encodeUpdates(decisions.filter(isListedChange).map(({ quote }) => quote)),
    );
    return {
      recorded: decisions.map((decision) => recordedQuote(decision, changes)),
      changedIds: changes.map(({ id }) => id),
      milestones: decisions.flatMap(milestonesOf),
      receipts,
    };
  }

  async #keepHistory(
    tx: TransactionStore,
    mintUrl: string,
    decisions: readonly Decision[],
    atMs: number,
  ): Promise<void> {
    const events = decisions.flatMap(({ quote, observation, transition: next, disbelieved }) => {
      const of = { id: quote.id, pubkey: quote.pubkey, atMs };
      const { source, state: said } = observation;
      const history: NewQuoteEvent[] = [];
      if (disbelieved !== null) {
        this.#anomalies.report(mintUrl, disbelieved);
        history.push({ ...of, kind: 'disbelieved', reason: disbelieved, said });
      }
      if ('state' in next) {
        history.push({ ...of, kind: 'state', from: quote.state, to: next.state, source });
      }
      return history;
    });
    await tx.events.add(events);
  }

  async #makeReceipts(
    tx: TransactionStore,
    held: readonly HeldQuote[],
    changes: readonly QuoteChange[],
    nowMs: number,
  ): Promise<MadeReceipts> {
    const paidAtMs = new Map(changes.map(({ id, payment }) => [id, payment?.paidAtMs]));
    const payments = held.flatMap(({ id, request, paymentHash }): RecordedPayment[] => {
      const atMs = paidAtMs.get(id);
      return atMs === undefined ? [] : [{ quote: id, request, paymentHash, paidAtMs: atMs }];
    });
    return this.#zaps === null || payments.length === 0
      ? NO_RECEIPTS
      : await this.#zaps.receipts.make(tx, payments, nowMs);
  }
}

function decide(quote: HeldQuote, observation: NewObservation): Decision {
  const endsWatch = observation.endsWatch === true;
  if (!isSameQuote(quote, observation)) {
    const unchanged = quote.state === 'EXPIRED' ? 'UNPAID' : quote.state;
    return {
      quote,
      observation,
      transition: transition(quote.state, unchanged, endsWatch),
      disbelieved: 'another_amount_or_invoice',
    };
  }
  const next = transition(quote.state, observation.state, endsWatch);
  const disbelieved = next.outcome === 'backwards' ? 'backwards' : null;
  return { quote, observation, transition: next, disbelieved };
}

/** Whether the mint reports the amount and invoice of the quote. An imported quote may have no invoice. */
function isSameQuote(quote: HeldQuote, observation: QuoteObservation): boolean {
  return (
    (observation.amountSat ?? quote.amountSat) === quote.amountSat &&
    (quote.request === '' ||
      (observation.request ?? quote.request).toLowerCase() === quote.request.toLowerCase())
  );
}

/** What to write about a quote: nothing if nothing changed. Takes the next place of a recipient's counter. */
function changeOf(
  { quote, observation, transition: next }: Decision,
  counters: ReadonlyMap<string, PaymentCounter>,
  nowMs: number,
): QuoteChange[] {
  const { id } = quote;
  if (!('state' in next)) {
    const isOver = observation.endsWatch === true && quote.isWatched;
    return isOver ? [{ id, state: quote.state, watchUntilMs: null, payment: null }] : [];
  }
  const payment = next.outcome === 'payment_appeared' ? nextPlace(counters, quote, nowMs) : null;
  const paidAtMs = payment?.paidAtMs ?? quote.paidAtMs;
  return [
    {
      id,
      state: next.state,
      watchUntilMs: watchUntilMs({ ...quote, state: next.state, paidAtMs }),
      payment,
    },
  ];
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

/** Whether the recipient's list changes, so that sockets are sent an `update`. */
function isListedChange({ transition: next }: Decision): boolean {
  return 'state' in next && isPaidState(next.state);
}

function recordedQuote(
  { quote, observation, transition: next }: Decision,
  changes: readonly QuoteChange[],
): RecordedQuote {
  const change = changes.find(({ id }) => id === quote.id);
  return {
    quoteId: quote.quoteId,
    state: change?.state ?? quote.state,
    paidAtMs: change?.payment?.paidAtMs ?? quote.paidAtMs,
    isWatched: change === undefined ? quote.isWatched : change.watchUntilMs !== null,
    isNews: 'state' in next,
    source: observation.source,
  };
}

/** A payment that is first seen when it is collected has reached both milestones. */
function milestonesOf({ quote, observation, transition: next }: Decision): Written['milestones'] {
  if (!('state' in next)) {
    return [];
  }
  const milestones: Milestone[] = [
    ...(next.outcome === 'payment_appeared' ? (['paid'] as const) : []),
    ...(next.state === 'ISSUED' ? (['collected'] as const) : []),
    ...(next.state === 'EXPIRED' ? (['expired'] as const) : []),
  ];
  return milestones.map((milestone) => ({ milestone, quote, source: observation.source }));
}
