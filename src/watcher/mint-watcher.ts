import { BY_URGENCY, orderOfTurn } from '../domain/check-turns.ts';
import type { Clock } from '../domain/clock.ts';
import { dropOldest } from '../domain/drop-oldest.ts';
import type { ObservedState, QuoteObservation } from '../domain/quote.ts';
import type { Log } from '../log.ts';
import type { MintInfoCache } from '../mint/mint-info-cache.ts';
import type { MintSubscription } from '../mint/mint-subscription.ts';
import type { DueQuote } from '../store/quote-watch-store.ts';
import type { Store } from '../store/store.ts';
import { PartlyRecorded, type Recorded } from '../usecases/record-lots.ts';
import type { ObservationSource, RecordObservations } from '../usecases/record-observations.ts';
import type { PollResult, PollRound } from './poll-round.ts';

/** As many as one connection may subscribe to (NUT-17 in practice). */
const MAX_SUBSCRIBED = 1_000;

/** A due quote as young as this may have been issued by another process, whose notice was lost. */
const FRESH_MS = 60_000;

/**
 * Where something is due, what is due within this time is asked about too: the next request may have
 * to wait for seconds, and the youngest quotes are planned only seconds apart.
 */
const LOOK_AHEAD_MS = 2_000;

/** So much of what was recorded last can be heard again: of a busy mint, what came in half a minute. */
const MAX_RECORDED_LATELY = 1_000;

/**
 * So long before its connections broke, a database may have taken what it had not brought to the disk when it
 * crashed: a second or so, half a minute as it may be set at most.
 */
const MAY_BE_LOST_MS = 30_000;

/** What a mint said, and when, or when its recording began. */
type HeardObservation = QuoteObservation & { saidAtMs: number };

/** What a {@link MintSubscription} tells its watcher. */
interface SubscriptionEvents {
  onObservations: (observations: QuoteObservation[]) => void;
  onUncovered: () => void;
}

/** What {@link MintWatcher} needs; `service.ts` constructs it. */
export interface MintWatcherParts {
  mintUrl: string;
  quotes: Pick<Store['watch'], 'listDue' | 'listWatched' | 'pullInUncovered' | 'pullInFromFuture'>;
  infos: Pick<MintInfoCache, 'get'>;
  /** Takes over what another process learnt of the mint's limits. */
  adoptLimits: () => Promise<void>;
  pollRound: PollRound;
  recordObservations: RecordObservations;
  openSubscription: (events: SubscriptionEvents) => MintSubscription;
  /** Told of what became of quotes, when it is recorded. */
  onNews: (states: readonly ObservedState[], source: ObservationSource) => void;
  clock: Clock;
  log: Log;
}

/**
 * Watches one mint. Its socket gives speed (NUT-17); polling gives certainty, and never stops
 * because a socket exists. Both end in the same use case.
 */
export class MintWatcher {
  readonly #parts: MintWatcherParts;
  #subscription: MintSubscription | null = null;
  #polling: Promise<void> | null = null;
  #pollAgain: NodeJS.Timeout | undefined;
  /** Rounds that were not only put off: which class of quotes comes first takes turns. */
  #turn = 0;
  #starting: Promise<void> = Promise.resolve();
  /** What the socket said and is not recorded yet, newest word by quote. */
  readonly #heard = new Map<string, HeardObservation>();
  /** News that was recorded lately, the newest of each quote, and the latest last. */
  readonly #recordedLately = new Map<string, HeardObservation>();
  #recording: Promise<void> | null = null;
  /** Whether checks are to be planned anew that rely on a socket, or on a clock, that was wrong. */
  #reliesOnSocket = false;
  #reliesOnClock = true;
  #replanning: Promise<void> | null = null;
  /** Whether the last thing that was tried failed: one line tells of it, and not one for each trial. */
  #isFailing = false;
  #isStopping = false;

  constructor(parts: MintWatcherParts) {
    this.#parts = parts;
  }

  /** Whether the mint gave no usable answer the last time that it was asked. */
  get isMintSilent(): boolean {
    return this.#parts.pollRound.isMintSilent;
  }

  get isPolling(): boolean {
    return this.#polling !== null;
  }

  /** Opens the mint's socket, where it has one, for all quotes that are watched. */
  start(): void {
    this.#starting = this.#begin().catch((error: unknown) => this.#logFailure(error));
  }

  /** Watches new quotes at once. Before the socket exists the database tells of them. */
  notice(quoteIds: readonly string[]): void {
    this.#subscription?.watch(quoteIds);
  }

  /** Plans anew what was planned by a clock that was ahead. */
  mindTheClock(): void {
    this.#reliesOnClock = true;
    this.#replan();
  }

  /** Does what could not be done, as when the database was away: records what was heard. */
  catchUp(): void {
    this.#recordHeard();
    this.#replan();
  }

  /**
   * Hears again what was recorded shortly before the database went away: where it crashed, that may be lost (ADR 31).
   *
   * @param sinceMs when the database was last known to be there (milliseconds since 1970)
   */
  hearAgain(sinceMs: number): void {
    for (const observation of this.#recordedLately.values()) {
      if (observation.saidAtMs >= sinceMs - MAY_BE_LOST_MS) {
        this.#keepHeard(observation);
      }
    }
    this.#recordHeard();
  }

  /** Asks the mint about what is due, unless that is under way or the mint has to rest. */
  poll(): void {
    if (this.#polling !== null || this.#isStopping || this.#parts.pollRound.waitMs() > 0) {
      return;
    }
    clearTimeout(this.#pollAgain);
    this.#polling = this.#pollDue()
      .catch((error: unknown) => this.#logFailure(error))
      .finally(() => {
        this.#polling = null;
      });
  }

  /** Closes the socket; resolves when all that was heard is recorded. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#pollAgain);
    await this.#starting;
    await this.#subscription?.close();
    await this.#polling;
    await this.#replanning;
    this.#recordHeard();
    while (this.#recording !== null) {
      await this.#recording;
    }
  }

  async #begin(): Promise<void> {
    this.#replan();
    await this.#parts.adoptLimits();
    await this.#subscribe();
  }

  async #subscribe(): Promise<void> {
    const { mintUrl, quotes, infos, openSubscription } = this.#parts;
    const info = await infos.get(mintUrl);
    if (info?.subscriptions === true && !this.#isStopping) {
      const subscription = openSubscription({
        onObservations: (observations) => this.#hear(observations),
        onUncovered: () => this.#pullInUncovered(),
      });
      this.#subscription = subscription;
      try {
        subscription.watch(await quotes.listWatched(mintUrl, MAX_SUBSCRIBED));
      } catch (error) {
        // Without the quotes of an earlier run it would be half a watch: the next poll opens another.
        this.#subscription = null;
        await subscription.close();
        throw error;
      }
    }
  }

  async #pollDue(): Promise<void> {
    const { mintUrl, quotes, infos, pollRound, clock } = this.#parts;
    await this.#starting;
    if (this.#subscription === null) {
      // It may have had none because the mint could not be asked when the watch began.
      await this.#subscribe().catch((error: unknown) => this.#logFailure(error));
    }
    const nowMs = clock();
    const limit = pollRound.size;
    const order = pollRound.isBridging ? BY_URGENCY : orderOfTurn(this.#turn);
    const { mayAskTogether } = pollRound;
    const due = await quotes.listDue(mintUrl, nowMs + LOOK_AHEAD_MS, limit, order);
    const dueIds = due.map(quoteIdOf);
    const fresh = due.filter((quote) => nowMs - quote.createdAtMs < FRESH_MS);
    this.#subscription?.watch(fresh.map(quoteIdOf));
    const info = await infos.get(mintUrl);
    const maxBatchSize = info?.batchCheck?.maxBatchSize ?? null;
    const sentBefore = pollRound.batchesSent;
    const together = await this.#ask(() => pollRound.askTogether(dueIds, maxBatchSize));
    const alone = await this.#ask(() => pollRound.askAlone(dueIds));
    // A batch that was refused had its turn as well: a class full of ids that the mint does not know would
    // keep the others from theirs.
    const hadTurn = mayAskTogether
      ? pollRound.batchesSent > sentBefore
      : alone.observations.length > 0;
    this.#turn += hadTurn ? 1 : 0;
    const answered = together.observations.length + alone.observations.length;
    if (answered < due.length || due.length === limit) {
      this.#pollAgainSoon(answered > 0);
    }
  }

  /** Goes on with what is left as soon as a mint that answers may be asked again. */
  #pollAgainSoon(hadAnswers: boolean): void {
    const waitMs = this.#parts.pollRound.waitMs();
    const isWorthwhile = hadAnswers || waitMs > 0;
    if (isWorthwhile && !this.isMintSilent && !this.#isStopping) {
      this.#pollAgain = setTimeout(() => this.poll(), waitMs).unref();
    }
  }

  /** Asks, and records what is answered. */
  async #ask(ask: () => Promise<PollResult>): Promise<PollResult> {
    const { mintUrl, recordObservations, clock } = this.#parts;
    const saidAtMs = clock();
    const result = await ask();
    await this.#record(
      result.observations.map((observation) => ({ ...observation, saidAtMs })),
      'poll',
    );
    await recordObservations.postpone(mintUrl, result.unanswered);
    return result;
  }

  #hear(observations: readonly QuoteObservation[]): void {
    const saidAtMs = this.#parts.clock();
    for (const observation of observations) {
      // A socket's first word may be stale, and "unpaid" is no news: it must not hide a payment.
      if (observation.state !== 'UNPAID') {
        this.#heard.set(observation.quoteId, { ...observation, saidAtMs });
      }
    }
    this.#recordHeard();
  }

  /** Takes in what was heard before, where nothing newer was. */
  #keepHeard(observation: HeardObservation): void {
    const known = this.#heard.get(observation.quoteId);
    if (known === undefined || known.saidAtMs < observation.saidAtMs) {
      this.#heard.set(observation.quoteId, observation);
    }
  }

  /** Records what was heard, one batch at a time; what fails is tried again by {@link catchUp}. */
  #recordHeard(): void {
    if (this.#recording !== null || this.#heard.size === 0) {
      return;
    }
    const batch = [...this.#heard.values()];
    this.#heard.clear();
    this.#recording = this.#record(batch, 'socket').then(
      () => {
        this.#recording = null;
        this.#recordHeard();
      },
      (error: unknown) => {
        this.#recording = null;
        // What is recorded may be old news by the time that the rest is tried again.
        const recorded = error instanceof PartlyRecorded ? error.recorded.news : [];
        const known = new Set(recorded.map(({ quoteId }) => quoteId));
        for (const observation of batch) {
          if (!known.has(observation.quoteId)) {
            this.#keepHeard(observation);
          }
        }
        this.#logFailure(error);
      },
    );
  }

  async #record(
    observations: readonly QuoteObservation[],
    source: ObservationSource,
  ): Promise<void> {
    const { mintUrl, recordObservations, clock } = this.#parts;
    const covers = (quoteId: string) => this.#subscription?.covers(quoteId) ?? false;
    const sinceMs = clock();
    try {
      const recorded = await recordObservations.record(mintUrl, observations, source, covers);
      this.#learn(recorded, source, sinceMs);
      this.#isFailing = false;
    } catch (error) {
      if (error instanceof PartlyRecorded) {
        this.#learn(error.recorded, source, sinceMs);
      }
      throw error;
    }
  }

  /** @param sinceMs when its recording began (milliseconds since 1970) */
  #learn({ news, finished }: Recorded, source: ObservationSource, sinceMs: number): void {
    const { pollRound, onNews } = this.#parts;
    this.#keepRecorded(news.map((each) => ({ ...each, saidAtMs: sinceMs })));
    onNews(
      news.map(({ state }) => state),
      source,
    );
    if (source === 'poll') {
      for (const { quoteId, state } of news) {
        this.#subscription?.polledNews(quoteId, state);
      }
    }
    this.#subscription?.unwatch(finished);
    pollRound.forget(finished);
  }

  /** A socket's word and a poll's may be recorded at the same time: the one that began later is the newer. */
  #keepRecorded(news: readonly HeardObservation[]): void {
    for (const each of news) {
      const known = this.#recordedLately.get(each.quoteId);
      if (known === undefined || known.saidAtMs <= each.saidAtMs) {
        this.#recordedLately.delete(each.quoteId);
        this.#recordedLately.set(each.quoteId, each);
      }
    }
    dropOldest(this.#recordedLately, MAX_RECORDED_LATELY);
  }

  #pullInUncovered(): void {
    this.#reliesOnSocket = true;
    this.#replan();
  }

  /** What the database does not take is tried again by {@link catchUp}. */
  #replan(): void {
    if (this.#reliesOnSocket || this.#reliesOnClock) {
      this.#replanning ??= this.#planAnew()
        .catch((error: unknown) => this.#logFailure(error))
        .finally(() => {
          this.#replanning = null;
        });
    }
  }

  async #planAnew(): Promise<void> {
    const { mintUrl, quotes, clock, log } = this.#parts;
    if (this.#reliesOnClock) {
      const count = await quotes.pullInFromFuture(mintUrl, clock());
      this.#reliesOnClock = false;
      if (count > 0) {
        log.warn({ mintUrl, quotes: count }, 'quotes were planned by a clock that was ahead');
      }
    }
    if (this.#reliesOnSocket) {
      await quotes.pullInUncovered(mintUrl, clock());
      this.#reliesOnSocket = false;
    }
  }

  #logFailure(error: unknown): void {
    const level = this.#isFailing ? 'debug' : 'error';
    this.#isFailing = true;
    this.#parts.log[level]({ err: error, mintUrl: this.#parts.mintUrl }, 'watching a mint failed');
  }
}

const quoteIdOf = (quote: DueQuote) => quote.quoteId;
