import type { Clock } from '../domain/clock.ts';
import { nextPaidAtMs } from '../domain/payment-time.ts';
import { isPastGrace, nextCheck } from '../domain/poll-schedule.ts';
import type { ObservedState, QuoteObservation, QuoteState } from '../domain/quote.ts';
import type { QuoteEventDetail } from '../domain/quote-event.ts';
import { type Transition, transition } from '../domain/quote-transition.ts';
import type { Log } from '../log.ts';
import type { MintConduct } from '../mint/mint-conduct.ts';
import { encodeUpdates, QUOTE_CHANNEL } from '../notifications/quote-channel.ts';
import { isConstraintViolation } from '../store/database.ts';
import type { NewQuoteEvent } from '../store/quote-event-store.ts';
import type { HeldQuote, QuoteChange } from '../store/quote-watch-store.ts';
import type { Store, TransactionStore } from '../store/store.ts';
import { logMilestone, type Milestone } from './milestones.ts';
import type { MadeReceipts, RecordedPayment, ZapReceipts } from './zap-receipts.ts';

/** Where a mint's word came from. A socket's may be stale, so only a poll ends a quote or plans one. */
export type ObservationSource = 'socket' | 'poll';

/** How the watcher covers a quote now; what no socket covers is polled more often. */
export type IsCovered = (quoteId: string) => boolean;

/** What came of recording. */
export interface Recorded {
  /** What was news, and was believed. */
  news: { quoteId: string; state: ObservedState }[];
  /** Ids of quotes that need no more watching. */
  finished: string[];
}

/** How zaps among the payments are answered. */
interface ZapAnswers {
  receipts: ZapReceipts;
  /** Told to which relays receipts are due (normalised urls, each once), when those are committed. */
  onReceipts: (relays: readonly string[]) => void;
}

/**
 * Where there may be zaps, so many changes are recorded in one transaction. It keeps others from the
 * counters of its recipients, and from all of an embedded database, and a zap takes milliseconds: a
 * signature, and a row for each of its relays. Without zaps, a batch as large as a mint's socket can
 * tell at a time is recorded in a fraction of a second, and twice as fast in one transaction as in ten.
 */
const ZAPS_PER_TRANSACTION = 100;

/** A quote that its mint cannot answer for makes way for the others, and has its turn again after this. */
const UNANSWERED_RETRY_MS = 60_000;

/** Takes in what mints say about quotes. Socket and poll both end here, in any order, any number of times. */
export class RecordObservations {
  readonly #store: Store;
  readonly #conduct: MintConduct;
  readonly #zaps: ZapAnswers | null;
  readonly #clock: Clock;
  readonly #log: Log;

  /**
   * @param parts.conduct told of what a mint said that is not believed
   * @param parts.zaps null: there are none
   */
  constructor(parts: {
    store: Store;
    conduct: MintConduct;
    zaps: ZapAnswers | null;
    clock: Clock;
    log: Log;
  }) {
    this.#store = parts.store;
    this.#conduct = parts.conduct;
    this.#zaps = parts.zaps;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /**
   * Records one batch of a mint's answers.
   *
   * A first payment takes its place in the recipient's list and has its receipt made where it is a
   * zap, and every change of a listed quote is told to its sockets, all in one transaction for each lot
   * of them. What is known already changes nothing, and what cannot be believed is kept in the quote's
   * history alone. What the database refuses of one recipient is logged and put off, and keeps nobody
   * else's payment back.
   *
   * Where it throws, lots may be recorded: the same batch can be given again.
   */
  async record(
    mintUrl: string,
    observations: readonly QuoteObservation[],
    source: ObservationSource,
    isCovered: IsCovered,
  ): Promise<Recorded> {
    if (observations.length === 0) {
      return { news: [], finished: [] };
    }
    const observed = new Map(observations.map((each) => [each.quoteId, each]));
    const held = await this.#store.watch.findHeld(mintUrl, [...observed.keys()]);
    const decided = this.#decide(held, observed, source);
    await this.#keepDisbelieved(mintUrl, decided);
    const confirmed =
      source === 'poll' ? await this.#planNextChecks(decided, isCovered) : knownToBeIssued(decided);
    const changing = decided
      .filter((each) => 'state' in each.transition)
      .toSorted((a, b) => a.quote.id - b.quote.id);
    const recorded: Recorded = { news: [], finished: confirmed };
    const lotSize = this.#zaps === null ? changing.length : ZAPS_PER_TRANSACTION;
    for (let start = 0; start < changing.length; start += lotSize) {
      const lot = changing.slice(start, start + lotSize);
      const batch = { mintUrl, changing: lot, observed, source, isCovered };
      const { news, finished } = await this.#recordChanges(batch);
      recorded.news.push(...news);
      recorded.finished.push(...finished);
      if (news.length > 0) {
        this.#log.debug({ mintUrl, source, quotes: news.length }, 'quotes changed');
      }
    }
    return recorded;
  }

  /** Puts off the next check of quotes of which the mint, though asked, said nothing. */
  async postpone(mintUrl: string, quoteIds: readonly string[]): Promise<void> {
    await this.#store.watch.postpone(mintUrl, quoteIds, this.#clock() + UNANSWERED_RETRY_MS);
  }

  /**
   * Rows that somebody changed by hand may contradict a payment, as a counter that was lost does: then
   * the recipients of a batch are recorded one at a time, and the one whom it concerns is left out.
   */
  async #recordChanges(batch: Batch): Promise<Recorded> {
    try {
      const { dueAt, receipts, reached, ...recorded } = await this.#store.transaction((tx) =>
        this.#applyChanges(tx, batch),
      );
      this.#tell(batch, reached, receipts);
      if (dueAt.length > 0) {
        this.#zaps?.onReceipts(dueAt);
      }
      return recorded;
    } catch (error) {
      if (!isConstraintViolation(error)) {
        throw error;
      }
      const recipients = [...Map.groupBy(batch.changing, ({ quote }) => quote.pubkey).values()];
      if (recipients.length === 1) {
        await this.#putOffRefused(batch, error);
        return { news: [], finished: [] };
      }
      const recorded: Recorded = { news: [], finished: [] };
      for (const changing of recipients) {
        const { news, finished } = await this.#recordChanges({ ...batch, changing });
        recorded.news.push(...news);
        recorded.finished.push(...finished);
      }
      return recorded;
    }
  }

  /** After the commit: what the log tells has happened. */
  #tell(
    { mintUrl, source }: Batch,
    reached: readonly Reached[],
    receipts: MadeReceipts['receipts'],
  ): void {
    for (const { milestone, quote } of reached) {
      const { paymentHash, pubkey, amountSat } = quote;
      logMilestone(this.#log, milestone, paymentHash, { pubkey, amountSat, mintUrl, source });
    }
    for (const { paymentHash, id, relays } of receipts) {
      logMilestone(this.#log, 'receipt_signed', paymentHash, { receipt: id, relays });
    }
  }

  async #putOffRefused({ mintUrl, changing }: Batch, error: unknown): Promise<void> {
    const quotes = changing.map(({ quote }) => quote);
    this.#log.error(
      { err: error, mintUrl, quotes: quotes.map(({ id }) => id) },
      'the database refuses what happened to these quotes: their rows contradict each other',
    );
    await this.postpone(
      mintUrl,
      quotes.map(({ quoteId }) => quoteId),
    );
  }

  /**
   * The counters are locked before the quotes, and both in a fixed order, so that transactions
   * queue and never wait in a circle. Behind the locks everything is decided again: another
   * process may have been first.
   *
   * @returns with the receipts that were made of zaps, and the milestones
   */
  async #applyChanges(
    tx: TransactionStore,
    { mintUrl, changing, observed, source, isCovered }: Batch,
  ): Promise<Recorded & MadeReceipts & { reached: Reached[] }> {
    const recipients = changing
      .filter((each) => each.transition.outcome === 'payment_appeared')
      .map((each) => each.quote.pubkey);
    const counters = new Map(
      (await tx.users.lockPaymentCounters(recipients)).map((each) => [each.pubkey, each]),
    );
    const locked = await tx.watch.lockHeld(
      mintUrl,
      changing.map((each) => each.quote.quoteId),
    );
    const nowMs = this.#clock();
    const changes: QuoteChange[] = [];
    const payments: RecordedPayment[] = [];
    const events: NewQuoteEvent[] = [];
    const toTell: HeldQuote[] = [];
    const news: Recorded['news'] = [];
    const finished: string[] = [];
    const reached: Reached[] = [];

    for (const { quote, transition: next } of this.#decide(locked, observed, source)) {
      if (!('state' in next)) {
        continue;
      }
      let payment: QuoteChange['payment'] = null;
      if (next.outcome === 'payment_appeared') {
        const counter = counters.get(quote.pubkey);
        if (counter === undefined) {
          throw new Error('a first payment needs its recipient’s counter to be locked');
        }
        counter.paidCount += 1;
        counter.lastPaidAtMs = nextPaidAtMs(counter.lastPaidAtMs, nowMs);
        payment = { paidAtMs: counter.lastPaidAtMs, paidSeq: counter.paidCount };
        const { id, request, paymentHash } = quote;
        payments.push({ quote: id, request, paymentHash, paidAtMs: payment.paidAtMs });
      }
      const paidAtMs = payment?.paidAtMs ?? quote.paidAtMs;
      const changed = { ...quote, state: next.state, paidAtMs };
      const planned = nextCheck(changed, nowMs, isCovered(quote.quoteId));
      changes.push({ id: quote.id, state: next.state, nextCheck: planned, payment });
      events.push(
        event(quote, nowMs, { kind: 'state', from: quote.state, to: next.state, source }),
      );
      if (next.state !== 'EXPIRED') {
        toTell.push(quote);
        news.push({ quoteId: quote.quoteId, state: next.state });
      }
      if (planned === null) {
        finished.push(quote.quoteId);
      }
      reached.push(...milestonesOf(next).map((milestone) => ({ milestone, quote })));
    }

    await tx.watch.applyChanges(changes, nowMs);
    await tx.users.savePaymentCounters([...counters.values()]);
    await tx.events.add(events);
    const made = await this.#zaps?.receipts.make(tx, payments, nowMs);
    await tx.notify(QUOTE_CHANNEL, encodeUpdates(toTell));
    return { news, finished, reached, ...(made ?? { receipts: [], dueAt: [] }) };
  }

  async #planNextChecks(decided: readonly Decision[], isCovered: IsCovered): Promise<string[]> {
    const nowMs = this.#clock();
    const plans = decided
      .filter((each) => !('state' in each.transition))
      .map(({ quote }) => ({
        id: quote.id,
        state: quote.state,
        quoteId: quote.quoteId,
        nextCheck: nextCheck(quote, nowMs, isCovered(quote.quoteId)),
      }));
    await this.#store.watch.reschedule(plans, nowMs);
    return plans.filter((plan) => plan.nextCheck === null).map((plan) => plan.quoteId);
  }

  async #keepDisbelieved(mintUrl: string, decided: readonly Decision[]): Promise<void> {
    const nowMs = this.#clock();
    const events = decided.flatMap(({ quote, disbelieved }) =>
      disbelieved === null ? [] : [event(quote, nowMs, { kind: 'disbelieved', ...disbelieved })],
    );
    for (const { disbelieved } of decided) {
      if (disbelieved !== null) {
        this.#conduct.report(mintUrl, disbelieved.reason);
      }
    }
    await this.#store.events.add(events);
  }

  #decide(
    held: readonly HeldQuote[],
    observed: ReadonlyMap<string, QuoteObservation>,
    source: ObservationSource,
  ): Decision[] {
    const nowMs = this.#clock();
    return held.flatMap((quote) => {
      const observation = observed.get(quote.quoteId);
      const pastGrace = source === 'poll' && isPastGrace(quote, nowMs);
      return observation === undefined ? [] : [decide(quote, observation, pastGrace)];
    });
  }
}

/** A lot of what seems to be news in a mint's answers, before locks are held. */
interface Batch {
  mintUrl: string;
  changing: readonly Decision[];
  observed: ReadonlyMap<string, QuoteObservation>;
  source: ObservationSource;
  isCovered: IsCovered;
}

interface Decision {
  quote: HeldQuote;
  transition: Transition;
  /** What the mint said, where it cannot be believed. */
  disbelieved: Omit<Extract<QuoteEventDetail, { kind: 'disbelieved' }>, 'kind'> | null;
}

/** A quote at a point of its way that the log tells of. */
interface Reached {
  milestone: Milestone;
  quote: HeldQuote;
}

/** A payment that is first seen when it is collected has both behind it. */
function milestonesOf({ outcome, state }: Extract<Transition, { state: QuoteState }>): Milestone[] {
  return [
    ...(outcome === 'payment_appeared' ? (['paid'] as const) : []),
    ...(state === 'ISSUED' ? (['collected'] as const) : []),
    ...(state === 'EXPIRED' ? (['expired'] as const) : []),
  ];
}

/**
 * What is issued is watched no more. A socket that tells of it again may not have been told so: somebody
 * else recorded it, or it was in a batch of which a later lot failed.
 *
 * @returns ids of quotes
 */
function knownToBeIssued(decided: readonly Decision[]): string[] {
  return decided.filter(({ quote }) => quote.state === 'ISSUED').map(({ quote }) => quote.quoteId);
}

function decide(quote: HeldQuote, observation: QuoteObservation, pastGrace: boolean): Decision {
  const said = observation.state;
  if (!isSameQuote(quote, observation)) {
    return {
      quote,
      transition: transition(quote.state, silence(quote.state), pastGrace),
      disbelieved: { reason: 'another_amount_or_invoice', said },
    };
  }
  const next = transition(quote.state, said, pastGrace);
  const isBackwards = next.outcome === 'backwards';
  return {
    quote,
    transition: next,
    disbelieved: isBackwards ? { reason: 'backwards', said } : null,
  };
}

/**
 * A mint that answers with another amount or invoice is not believed. Of a payment that was brought over
 * without its invoice, the amount alone is known.
 */
function isSameQuote(quote: HeldQuote, observation: QuoteObservation): boolean {
  return (
    (observation.amountSat ?? quote.amountSat) === quote.amountSat &&
    (quote.request === '' ||
      (observation.request ?? quote.request).toLowerCase() === quote.request.toLowerCase())
  );
}

/** What a mint says of a quote by saying nothing that can be believed: no payment, and no news. */
function silence(held: QuoteState): ObservedState {
  return held === 'EXPIRED' ? 'UNPAID' : held;
}

function event(quote: HeldQuote, atMs: number, detail: QuoteEventDetail): NewQuoteEvent {
  return { id: quote.id, pubkey: quote.pubkey, atMs, ...detail };
}
