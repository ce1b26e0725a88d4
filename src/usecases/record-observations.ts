import type { Clock } from '../domain/clock.ts';
import { nextPaidAtMs } from '../domain/payment-time.ts';
import { isPastGrace, nextCheckAtMs } from '../domain/poll-schedule.ts';
import type { ObservedState, QuoteObservation, QuoteState } from '../domain/quote.ts';
import { type Transition, transition } from '../domain/quote-transition.ts';
import type { Log } from '../log.ts';
import { encodeUpdates, QUOTE_CHANNEL } from '../notifications/quote-channel.ts';
import type { HeldQuote, QuoteChange } from '../store/quote-store.ts';
import type { Store, TransactionStore } from '../store/store.ts';

/** Where a mint's word came from. A socket's may be stale, so only a poll ends a quote or plans one. */
export type ObservationSource = 'socket' | 'poll';

/** How the watcher covers a quote now; what no socket covers is polled more often. */
export type IsCovered = (quoteId: string) => boolean;

/** A quote that its mint cannot answer for makes way for the others, and has its turn again after this. */
const UNANSWERED_RETRY_MS = 60_000;

/** Takes in what mints say about quotes. Socket and poll both end here, in any order, any number of times. */
export class RecordObservations {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(store: Store, clock: Clock, log: Log) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Records one batch of a mint's answers.
   *
   * A first payment takes its place in the recipient's list and every change of a listed quote is
   * told to its sockets, all in one transaction. What is known already changes nothing.
   *
   * @returns ids of quotes that need no more watching
   */
  async record(
    mintUrl: string,
    observations: readonly QuoteObservation[],
    source: ObservationSource,
    isCovered: IsCovered,
  ): Promise<string[]> {
    if (observations.length === 0) {
      return [];
    }
    const observed = new Map(observations.map((each) => [each.quoteId, each]));
    const held = await this.#store.quotes.findHeld(mintUrl, [...observed.keys()]);
    const decided = this.#decide(held, observed, source);
    const confirmed = source === 'poll' ? await this.#planNextChecks(decided, isCovered) : [];
    const changing = decided.filter((each) => 'state' in each.transition);
    if (changing.length === 0) {
      return confirmed;
    }
    const { changed, finished } = await this.#store.transaction((tx) =>
      this.#applyChanges(tx, mintUrl, changing, observed, source, isCovered),
    );
    if (changed > 0) {
      this.#log.info({ mintUrl, source, quotes: changed }, 'quotes changed');
    }
    return [...confirmed, ...finished];
  }

  /** Puts off the next check of quotes of which the mint, though asked, said nothing. */
  async postpone(mintUrl: string, quoteIds: readonly string[]): Promise<void> {
    await this.#store.quotes.postpone(mintUrl, quoteIds, this.#clock() + UNANSWERED_RETRY_MS);
  }

  /**
   * The counters are locked before the quotes, and both in a fixed order, so that transactions
   * queue and never wait in a circle. Behind the locks everything is decided again: another
   * process may have been first.
   */
  async #applyChanges(
    tx: TransactionStore,
    mintUrl: string,
    candidates: readonly Decision[],
    observed: ReadonlyMap<string, QuoteObservation>,
    source: ObservationSource,
    isCovered: IsCovered,
  ): Promise<{ changed: number; finished: string[] }> {
    const recipients = candidates
      .filter((each) => each.transition.outcome === 'payment_appeared')
      .map((each) => each.quote.pubkey);
    const counters = new Map(
      (await tx.users.lockPaymentCounters(recipients)).map((each) => [each.pubkey, each]),
    );
    const locked = await tx.quotes.lockHeld(
      mintUrl,
      candidates.map((each) => each.quote.quoteId),
    );
    const nowMs = this.#clock();
    const changes: QuoteChange[] = [];
    const toTell: HeldQuote[] = [];
    const finished: string[] = [];

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
      }
      const paidAtMs = payment?.paidAtMs ?? quote.paidAtMs;
      const changed = { ...quote, state: next.state, paidAtMs };
      const planned = nextCheckAtMs(changed, nowMs, isCovered(quote.quoteId));
      changes.push({ id: quote.id, state: next.state, nextCheckAtMs: planned, payment });
      if (next.outcome !== 'expired') {
        toTell.push(quote);
      }
      if (planned === null) {
        finished.push(quote.quoteId);
      }
    }

    await tx.quotes.applyChanges(changes);
    await tx.users.savePaymentCounters([...counters.values()]);
    await tx.notify(QUOTE_CHANNEL, encodeUpdates(toTell));
    return { changed: changes.length, finished };
  }

  async #planNextChecks(decided: readonly Decision[], isCovered: IsCovered): Promise<string[]> {
    const nowMs = this.#clock();
    const plans = decided
      .filter((each) => !('state' in each.transition))
      .map(({ quote: { id, state, quoteId, ...times } }) => ({
        id,
        state,
        quoteId,
        nextCheckAtMs: nextCheckAtMs({ state, ...times }, nowMs, isCovered(quoteId)),
      }));
    await this.#store.quotes.reschedule(plans);
    return plans.filter((plan) => plan.nextCheckAtMs === null).map((plan) => plan.quoteId);
  }

  #decide(
    held: readonly HeldQuote[],
    observed: ReadonlyMap<string, QuoteObservation>,
    source: ObservationSource,
  ): Decision[] {
    const nowMs = this.#clock();
    return held.flatMap((quote) => {
      const observation = observed.get(quote.quoteId);
      if (observation === undefined) {
        return [];
      }
      const pastGrace = source === 'poll' && isPastGrace(quote, nowMs);
      const word = this.#isSameQuote(quote, observation) ? observation.state : null;
      const next = transition(quote.state, word ?? silence(quote.state), pastGrace);
      if (next.outcome === 'backwards') {
        this.#log.warn(
          { quote: quote.id, held: quote.state, observed: observation.state },
          'a mint took back what it said of a quote; kept what was known',
        );
      }
      return [{ quote, transition: next }];
    });
  }

  /** A mint that answers with another amount or invoice is not believed. */
  #isSameQuote(quote: HeldQuote, observation: QuoteObservation): boolean {
    const isSame =
      (observation.amountSat ?? quote.amountSat) === quote.amountSat &&
      (observation.request ?? quote.request).toLowerCase() === quote.request.toLowerCase();
    if (!isSame) {
      this.#log.warn(
        { quote: quote.id },
        'a mint answered for a quote with another amount or invoice',
      );
    }
    return isSame;
  }
}

interface Decision {
  quote: HeldQuote;
  transition: Transition;
}

/** What a mint says of a quote by saying nothing that can be believed: no payment, and no news. */
function silence(held: QuoteState): ObservedState {
  return held === 'EXPIRED' ? 'UNPAID' : held;
}
