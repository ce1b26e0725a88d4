import type { Clock } from '../domain/clock.ts';
import type { QuoteObservation } from '../domain/quote.ts';
import type { Log } from '../log.ts';
import type { MintInfoCache } from '../mint/mint-info-cache.ts';
import type { MintSubscription } from '../mint/mint-subscription.ts';
import type { DueQuote } from '../store/quote-store.ts';
import type { Store } from '../store/store.ts';
import type { ObservationSource, RecordObservations } from '../usecases/record-observations.ts';
import type { PollResult, PollRound } from './poll-round.ts';

/** As many as one batch may hold, or one connection may subscribe to (NUT-29, NUT-17 in practice). */
const MAX_QUOTES_AT_ONCE = 1_000;

/** A due quote as young as this may have been issued by another process, whose notice came not here. */
const FRESH_MS = 60_000;

/** What {@link MintWatcher} needs; `service.ts` constructs it. */
export interface MintWatcherParts {
  mintUrl: string;
  quotes: Pick<Store['quotes'], 'listDue' | 'listWatched'>;
  infos: Pick<MintInfoCache, 'get'>;
  pollRound: PollRound;
  recordObservations: RecordObservations;
  openSubscription: (
    onObservations: (observations: QuoteObservation[]) => void,
  ) => MintSubscription;
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
  #starting: Promise<void> = Promise.resolve();
  /** What the socket said and is not recorded yet, newest word by quote. */
  readonly #heard = new Map<string, QuoteObservation>();
  #recording: Promise<void> | null = null;
  #isStopping = false;

  constructor(parts: MintWatcherParts) {
    this.#parts = parts;
  }

  /** Opens the mint's socket, where it has one, for all quotes that are watched. */
  start(): void {
    this.#starting = this.#subscribe().catch((error: unknown) => this.#logFailure(error));
  }

  /** Watches a new quote at once. Before the socket exists the database tells of it. */
  notice(quoteId: string): void {
    this.#subscription?.watch([quoteId]);
  }

  /** Records what was heard and could not be recorded, as when the database was away. */
  catchUp(): void {
    this.#recordHeard();
  }

  /** Asks the mint about what is due, unless that is under way or the mint has to rest. */
  poll(): void {
    if (this.#polling !== null || this.#isStopping || this.#parts.pollRound.waitMs() > 0) {
      return;
    }
    this.#polling = this.#pollDue()
      .catch((error: unknown) => this.#logFailure(error))
      .finally(() => {
        this.#polling = null;
      });
  }

  /** Closes the socket; resolves when all that was heard is recorded. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#starting;
    await this.#subscription?.close();
    await this.#polling;
    while (this.#recording !== null) {
      await this.#recording;
    }
  }

  async #subscribe(): Promise<void> {
    const { mintUrl, quotes, infos, openSubscription } = this.#parts;
    const info = await infos.get(mintUrl);
    if (info?.subscriptions === true && !this.#isStopping) {
      const subscription = openSubscription((observations) => this.#hear(observations));
      this.#subscription = subscription;
      try {
        subscription.watch(await quotes.listWatched(mintUrl, MAX_QUOTES_AT_ONCE));
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
      await this.#subscribe();
    }
    const nowMs = clock();
    const due = await quotes.listDue(mintUrl, nowMs, MAX_QUOTES_AT_ONCE);
    const dueIds = due.map(quoteIdOf);
    const fresh = due.filter((quote) => nowMs - quote.createdAtMs < FRESH_MS);
    this.#subscription?.watch(fresh.map(quoteIdOf));
    const info = await infos.get(mintUrl);
    const maxBatchSize = info?.batchCheck?.maxBatchSize ?? null;
    await this.#recordPoll(await pollRound.askTogether(dueIds, maxBatchSize));
    await this.#recordPoll(await pollRound.askAlone(dueIds));
  }

  async #recordPoll({ observations, unanswered }: PollResult): Promise<void> {
    const { mintUrl, recordObservations } = this.#parts;
    await this.#record(observations, 'poll');
    await recordObservations.postpone(mintUrl, unanswered);
  }

  #hear(observations: readonly QuoteObservation[]): void {
    for (const observation of observations) {
      // A socket's first word may be stale, and "unpaid" is no news: it must not hide a payment.
      if (observation.state !== 'UNPAID') {
        this.#heard.set(observation.quoteId, observation);
      }
    }
    this.#recordHeard();
  }

  /** Records what was heard, one transaction at a time; what fails is tried again by {@link catchUp}. */
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
        for (const observation of batch) {
          if (!this.#heard.has(observation.quoteId)) {
            this.#heard.set(observation.quoteId, observation);
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
    const { mintUrl, recordObservations } = this.#parts;
    const finished = await recordObservations.record(mintUrl, observations, source, (quoteId) =>
      this.#isCovered(quoteId),
    );
    this.#subscription?.unwatch(finished);
    this.#parts.pollRound.forget(finished);
  }

  #isCovered(quoteId: string): boolean {
    return this.#subscription?.covers(quoteId) ?? false;
  }

  #logFailure(error: unknown): void {
    this.#parts.log.error({ err: error, mintUrl: this.#parts.mintUrl }, 'watching a mint failed');
  }
}

const quoteIdOf = (quote: DueQuote) => quote.quoteId;
