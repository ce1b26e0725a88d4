import type { Clock } from '../domain/clock.ts';
import { nextPaidAtMs } from '../domain/payment-time.ts';
import { isPastGrace, nextCheck } from '../domain/poll-schedule.ts';
import {
  isPaidState,
  type ObservedState,
  type QuoteObservation,
  type QuoteState,
} from '../domain/quote.ts';
import type { QuoteEventDetail } from '../domain/quote-event.ts';
import { isBehind, type Transition, transition } from '../domain/quote-transition.ts';
import { type Log, logTogether } from '../log.ts';
import type { MintConduct } from '../mint/mint-conduct.ts';
import { encodeUpdates, QUOTE_CHANNEL } from '../notifications/quote-channel.ts';
import { isConstraintViolation } from '../store/database.ts';
import { Overtaken } from '../store/overtaken.ts';
import type { NewQuoteEvent } from '../store/quote-event-store.ts';
import type { HeldQuote, ObservedChange } from '../store/quote-watch-store.ts';
import type { Store, TransactionStore } from '../store/store.ts';
import { logMilestone, type Milestone } from './milestones.ts';
import { OneByOne } from './one-by-one.ts';
import { type Recorded, recordLots } from './record-lots.ts';
import type { MadeReceipts, RecordedPayment, ZapReceipts } from './zap-receipts.ts';

/** Where a mint's word came from. A socket's may be stale, so only a poll ends a quote or plans one. */
export type ObservationSource = 'socket' | 'poll';

/** How the watcher covers a quote now; what no socket covers is polled more often. */
export type IsCovered = (quoteId: string) => boolean;

/** How zaps among the payments are answered. */
interface ZapAnswers {
  receipts: ZapReceipts;
  /** Told to which relays receipts are due (normalised urls, each once), when those are committed. */
  onReceipts: (relays: readonly string[]) => void;
}

/**
 * A batch is cut into lots no smaller than that, each of which is recorded in one transaction. Where there may be
 * zaps, they are no larger either: a transaction keeps others from the counters of its recipients, and from all of
 * an embedded database, and a zap takes milliseconds, a signature, and a row for each of its relays. Without
 * zaps, a batch as large as a mint's socket can tell at a time is recorded in a fraction of a second, and twice
 * as fast in one transaction as in ten: it is cut into as many as go on at a time.
 */
const CHANGES_PER_LOT = 100;

/**
 * Polls tell of hundreds of quotes, and of several mints in one moment, and nobody waits for most of it: recorded all at
 * once, they would keep what sockets tell waiting for processors. One that waits for a row that somebody
 * holds is not waited for.
 */
const POLL_PATIENCE_MS = 200;

/** Of one batch. An embedded database has one connection. */
const TRANSACTIONS_ON_A_SERVER = 2;
const TRANSACTIONS_EMBEDDED = 1;

/**
 * To record a lot, far more than it takes. Each that fails was overtaken by news of one of its quotes, by a poll that
 * found it as it was where that matters, or by a recipient who is new.
 */
const ATTEMPTS = 10;

/** Of payments among which no zap is. */
const NO_RECEIPTS: MadeReceipts = { receipts: [], dueAt: [] };

/** A quote that its mint cannot answer for makes way for the others, and has its turn again after this. */
const UNANSWERED_RETRY_MS = 60_000;

/** Takes in what mints say about quotes. Socket and poll both end here, in any order, any number of times. */
export class RecordObservations {
  readonly #store: Store;
  readonly #conduct: MintConduct;
  readonly #zaps: ZapAnswers | null;
  readonly #onChanged: (quote: number) => void;
  readonly #isOnServer: boolean;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #polls = new OneByOne(POLL_PATIENCE_MS);
  /** How many batches are being recorded. */
  #underWay = 0;

  /**
   * @param parts.conduct told of what a mint said that is not believed
   * @param parts.zaps null: there are none
   * @param parts.onChanged told of each quote (`HeldQuote.id`) that may have changed, as soon as it has:
   *   what others are told over the database comes later, and over a dead connection never
   * @param parts.isOnServer whether the database is a server's, and not embedded
   */
  constructor(parts: {
    store: Store;
    conduct: MintConduct;
    zaps: ZapAnswers | null;
    onChanged?: (quote: number) => void;
    isOnServer: boolean;
    clock: Clock;
    log: Log;
  }) {
    this.#store = parts.store;
    this.#conduct = parts.conduct;
    this.#zaps = parts.zaps;
    this.#onChanged = parts.onChanged ?? (() => {});
    this.#isOnServer = parts.isOnServer;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /**
   * Records one batch of a mint's answers.
   *
   * A first payment takes its place in the recipient's list and has its receipt made where it is a
   * zap, and every change of a listed quote is told to its sockets, all in one transaction for each lot
   * of them. A server may tell of it before it is on the disk; after a crash, the same news can be given
   * again. What is known already changes nothing, and what cannot be believed is kept in the quote's
   * history alone. What the database refuses of one recipient is logged and put off, and keeps nobody
   * else's payment back.
   *
   * @throws PartlyRecorded where some lots are recorded; the same batch can be given again
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
    const record = () => this.#recordBatch(mintUrl, observations, source, isCovered);
    return source === 'poll' ? this.#polls.run(record) : record();
  }

  async #recordBatch(
    mintUrl: string,
    observations: readonly QuoteObservation[],
    source: ObservationSource,
    isCovered: IsCovered,
  ): Promise<Recorded> {
    const observed = new Map(observations.map((each) => [each.quoteId, each]));
    const held = await this.#store.watch.findHeld(mintUrl, [...observed.keys()]);
    const decided = this.#decide(held, observed, source);
    await this.#keepDisbelieved(mintUrl, decided);
    const confirmed =
      source === 'poll' ? await this.#planNextChecks(decided, isCovered) : knownToBeIssued(decided);
    const changing = decided.filter(isChange);
    const batch = { mintUrl, changing, observed, source, isCovered };
    return await this.#recordInLots(batch, { news: [], finished: confirmed });
  }

  /** A batch that comes while another is under way has one transaction at a time: connections are few. */
  async #recordInLots(batch: Batch, before: Recorded): Promise<Recorded> {
    const most = this.#isOnServer ? TRANSACTIONS_ON_A_SERVER : TRANSACTIONS_EMBEDDED;
    const atATime = this.#underWay === 0 ? most : 1;
    const size = this.#zaps === null ? Math.ceil(batch.changing.length / atATime) : 0;
    this.#underWay += 1;
    try {
      return await recordLots(toLots(batch.changing, size), atATime, before, async (changing) => {
        const recorded = await this.#recordChanges({ ...batch, changing });
        const { mintUrl, source } = batch;
        if (recorded.news.length > 0) {
          this.#log.debug({ mintUrl, source, quotes: recorded.news.length }, 'quotes changed');
        }
        return recorded;
      });
    } finally {
      this.#underWay -= 1;
    }
  }

  /** Puts off the next check of quotes of which the mint, though asked, said nothing. */
  async postpone(mintUrl: string, quoteIds: readonly string[]): Promise<void> {
    await this.#store.watch.postpone(mintUrl, quoteIds, this.#clock() + UNANSWERED_RETRY_MS);
  }

  /**
   * Where somebody else wrote to one of the quotes after it was read, all are read and decided again.
   *
   * Rows that somebody changed by hand may contradict a payment, as a counter that was lost does: then
   * the recipients of a batch are recorded one at a time, and the one whom it concerns is left out.
   *
   * @throws Overtaken where each of the attempts was overtaken
   */
  async #recordChanges(batch: Batch, attempts = ATTEMPTS): Promise<Recorded> {
    if (batch.changing.length === 0) {
      return { news: [], finished: [] };
    }
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
      if (error instanceof Overtaken && attempts > 1) {
        return await this.#recordChanges(await this.#decideAgain(batch), attempts - 1);
      }
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
    } finally {
      // Where it fails, too: it may have been recorded, and the answer lost.
      for (const { quote } of batch.changing) {
        this.#onChanged(quote.id);
      }
    }
  }

  /** After the commit: what the log tells has happened. */
  #tell(
    { mintUrl, source }: Batch,
    reached: readonly Reached[],
    receipts: MadeReceipts['receipts'],
  ): void {
    logTogether(this.#log, () => {
      for (const { milestone, quote } of reached) {
        const { paymentHash, pubkey, amountSat } = quote;
        logMilestone(this.#log, milestone, paymentHash, { pubkey, amountSat, mintUrl, source });
      }
      for (const { paymentHash, id, relays } of receipts) {
        logMilestone(this.#log, 'receipt_signed', paymentHash, { receipt: id, relays });
      }
    });
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

  async #decideAgain(batch: Batch): Promise<Batch> {
    const { mintUrl, changing, observed, source } = batch;
    const quoteIds = changing.map(({ quote }) => quote.quoteId);
    const held = await this.#store.watch.findHeld(mintUrl, quoteIds);
    return { ...batch, changing: this.#decide(held, observed, source).filter(isChange) };
  }

  /**
   * The counters are locked before the quotes, and both in a fixed order, so that transactions
   * queue and never wait in a circle.
   *
   * @returns with the receipts that were made of zaps, and the milestones
   * @throws Overtaken where another process, or another word of the mint, was first
   */
  async #applyChanges(
    tx: TransactionStore,
    { changing, source, isCovered }: Batch,
  ): Promise<Recorded & MadeReceipts & { reached: Reached[] }> {
    const recipients = changing
      .filter((each) => each.transition.outcome === 'payment_appeared')
      .map((each) => each.quote.pubkey);
    const counters = new Map(
      (await tx.users.lockPaymentCounters(recipients)).map((each) => [each.pubkey, each]),
    );
    const nowMs = this.#clock();
    const changes: ObservedChange[] = [];
    const payments: RecordedPayment[] = [];
    const toTell: HeldQuote[] = [];
    const news: Recorded['news'] = [];
    const finished: string[] = [];
    const reached: Reached[] = [];

    for (const { quote, transition: next } of changing) {
      let payment: ObservedChange['payment'] = null;
      if (next.outcome === 'payment_appeared') {
        const counter = counters.get(quote.pubkey);
        if (counter === undefined) {
          throw new Error('a first payment needs its recipient’s counter to be locked');
        }
        counter.paidCount += 1;
        counter.lastPaidAtMs = nextPaidAtMs(counter.lastPaidAtMs, nowMs);
        payment = { paidAtMs: counter.lastPaidAtMs, paidSeq: counter.paidCount };
        const { request, paymentHash } = quote;
        payments.push({ quote: quote.id, request, paymentHash, paidAtMs: payment.paidAtMs });
      }
      const paidAtMs = payment?.paidAtMs ?? quote.paidAtMs;
      const changed = { ...quote, state: next.state, paidAtMs };
      const planned = nextCheck(changed, nowMs, isCovered(quote.quoteId));
      const { id, state: from, checkedAtMs } = quote;
      changes.push({ id, from, checkedAtMs, state: next.state, nextCheck: planned, payment });
      if (next.state !== 'EXPIRED') {
        toTell.push(quote);
        news.push({ quoteId: quote.quoteId, state: next.state });
      }
      if (planned === null) {
        finished.push(quote.quoteId);
      }
      reached.push(...milestonesOf(next).map((milestone) => ({ milestone, quote })));
    }

    await tx.watch.recordChanges(changes, source, nowMs);
    await tx.events.dropOldest(
      changes.filter(mayBeOneOfMany).map(({ id }) => ({ quote: id, kind: 'state' })),
    );
    const made = (await this.#zaps?.receipts.make(tx, payments, nowMs)) ?? NO_RECEIPTS;
    const mayBeTakenBack =
      made.receipts.length === 0 && changes.every((change) => mayBeToldAgain(change, nowMs));
    const updates = encodeUpdates(toTell);
    await (this.#isOnServer && mayBeTakenBack
      ? tx.notifyBeforeSync(QUOTE_CHANNEL, updates)
      : tx.notify(QUOTE_CHANNEL, updates));
    return { news, finished, reached, ...made };
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

/** A lot of what is news in a mint's answers, unless somebody else is first with it. */
interface Batch {
  mintUrl: string;
  changing: readonly Change[];
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

/** One by which something changes. */
interface Change extends Decision {
  transition: Extract<Transition, { state: QuoteState }>;
}

/** A quote at a point of its way that the log tells of. */
interface Reached {
  milestone: Milestone;
  quote: HeldQuote;
}

/** By recipient, so that few are in two lots, which would wait for each other. */
function toLots(changing: readonly Change[], size: number): Change[][] {
  const sorted = changing.toSorted(
    (a, b) => compare(a.quote.pubkey, b.quote.pubkey) || a.quote.id - b.quote.id,
  );
  const lotSize = Math.max(size, CHANGES_PER_LOT);
  return Array.from({ length: Math.ceil(sorted.length / lotSize) }, (_, lot) =>
    sorted.slice(lot * lotSize, (lot + 1) * lotSize),
  );
}

function isChange(decision: Decision): decision is Change {
  return 'state' in decision.transition;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

/**
 * Whether a crash may take a change back, because it would be recorded again, and nothing contradicts what was told of
 * it (ADR 31). A quote that was given up would not be asked about again; and after a time ahead of the clock, which a
 * wallet may have seen, payments would be listed with earlier ones.
 */
function mayBeToldAgain({ from, payment }: ObservedChange, nowMs: number): boolean {
  return from !== 'EXPIRED' && (payment === null || payment.paidAtMs <= nowMs);
}

/** A quote is paid once, and expires once; between the states of a payment, a mint may go to and fro. */
function mayBeOneOfMany({ from }: ObservedChange): boolean {
  return isPaidState(from);
}

/** A payment that is first seen when it is collected has both behind it. */
function milestonesOf({ outcome, state }: Change['transition']): Milestone[] {
  return [
    ...(outcome === 'payment_appeared' ? (['paid'] as const) : []),
    ...(state === 'ISSUED' ? (['collected'] as const) : []),
    ...(state === 'EXPIRED' ? (['expired'] as const) : []),
  ];
}

/**
 * What is issued is watched no more. A socket that tells of it again may not have been told so: somebody
 * else recorded it, or the answer to the commit was lost.
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
  if (isOutdated(quote, observation)) {
    return { quote, transition: { outcome: 'unchanged' }, disbelieved: null };
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

/**
 * Whether what came later on the way of a payment was recorded after this was said: by a socket while a poll was
 * answered, or by another process. Then it is old, and takes nothing back. Where a mint did take something back
 * in that moment, it will say so again.
 */
function isOutdated({ state, checkedAtMs }: HeldQuote, observation: QuoteObservation): boolean {
  const { saidAtMs } = observation;
  return (
    saidAtMs !== undefined &&
    checkedAtMs !== null &&
    checkedAtMs > saidAtMs &&
    isBehind(observation.state, state)
  );
}

/** What a mint says of a quote by saying nothing that can be believed: no payment, and no news. */
function silence(held: QuoteState): ObservedState {
  return held === 'EXPIRED' ? 'UNPAID' : held;
}

function event(quote: HeldQuote, atMs: number, detail: QuoteEventDetail): NewQuoteEvent {
  return { id: quote.id, pubkey: quote.pubkey, atMs, ...detail };
}
