import type { Clock } from '../domain/clock.ts';
import type { QuoteObservation } from '../domain/quote.ts';
import type { PacedMintClient } from '../mint/paced-mint-client.ts';

/** A batch for a mint that advertises no NUT-29: cdk answers batches all the same, up to this size. */
const UNADVERTISED_BATCH_SIZE = 100;

/**
 * Ids that spoil a batch are asked one by one; more of them than this are not remembered. Half of
 * what is looked at in one round, so that they never crowd out the others.
 */
const MAX_ALONE = 500;

/** As many as one batch may hold in practice (NUT-29). */
const MOST_TOGETHER = 1_000;

/** Enough to choose from, where they are asked one by one. */
const CHOICE_ONE_BY_ONE = 8;

/** A rest of the batch route that is longer is a refusal's, and no gap between two requests. */
const LONG_REST_MS = 5_000;

/** A mint without batches may get them with its next version, or had a proxy's bad day. */
const BATCHES_AGAIN_AFTER_MS = 60 * 60_000;

/** A mint that answers single reads, but not so many batches of one in a row, has a broken batch route. */
const FAILURES_OF_A_BROKEN_ROUTE = 3;

/** What mints say of a batch with a bad id (NUT-29): nothing else that they refuse is the id's fault. */
const BAD_ID_STATUSES: ReadonlySet<number> = new Set([400, 404, 422]);

/** What came of asking. */
export interface PollResult {
  observations: QuoteObservation[];
  /** Asked for, without an answer that can be used, where the mint as such may be well. */
  unanswered: string[];
}

/**
 * Asks one mint about quotes, in batches where it has them (NUT-29), else one by one (NUT-23).
 *
 * One id that a mint does not know fails a whole batch: the batch is halved until the id stands
 * alone, and it is asked by itself until the mint has answered for it. A batch that a mint cannot
 * answer in time is halved too.
 */
export class PollRound {
  readonly #mintUrl: string;
  readonly #client: Pick<PacedMintClient, 'readQuote' | 'checkQuotes' | 'waitMs'>;
  readonly #clock: Clock;
  /** Ids to be asked alone, the longest remembered first. */
  readonly #alone = new Set<string>();
  /** Milliseconds since 1970. */
  #noBatchesUntilMs = 0;
  #batchSize = UNADVERTISED_BATCH_SIZE;
  /** Batches of a single id, in a row, that the mint did not answer. */
  #failuresAtOne = 0;
  /** The id that is asked alone, while batches fail, to see what is broken. */
  #probe: string | null = null;
  /** Whether the mint answered the last single read, and no batch since. */
  #readsAlone = false;
  #isMintSilent = false;

  constructor(
    mintUrl: string,
    client: Pick<PacedMintClient, 'readQuote' | 'checkQuotes' | 'waitMs'>,
    clock: Clock,
  ) {
    this.#mintUrl = mintUrl;
    this.#client = client;
    this.#clock = clock;
  }

  /** Whether the mint gave no usable answer the last time. */
  get isMintSilent(): boolean {
    return this.#isMintSilent;
  }

  /**
   * Whether the mint, which answers otherwise, has to be left alone with batches for long: then the
   * most urgent quotes are asked about one by one, as mints count those requests by themselves.
   */
  get isBridging(): boolean {
    return (
      this.#hasBatches() &&
      !this.#isMintSilent &&
      this.#client.waitMs(this.#mintUrl, 'check') > LONG_REST_MS
    );
  }

  /** How many due quotes are of use to the next round. */
  get size(): number {
    return this.#hasBatches() && !this.isBridging ? MOST_TOGETHER : CHOICE_ONE_BY_ONE;
  }

  /** Milliseconds until the mint may be asked anything again; 0 is now. */
  waitMs(): number {
    const forBatch = this.#client.waitMs(this.#mintUrl, 'check');
    const forOne = this.#client.waitMs(this.#mintUrl, 'read');
    if (!this.#hasBatches()) {
      return forOne;
    }
    const isAnyAlone = this.#alone.size > 0 || this.#probe !== null || this.isBridging;
    return isAnyAlone ? Math.min(forBatch, forOne) : forBatch;
  }

  /** Lets go of quotes that need no more watching. */
  forget(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#alone.delete(quoteId);
    }
  }

  /**
   * Asks for as many of these quotes as one batch holds.
   *
   * @param due ids, the most urgent first
   * @param maxBatchSize what the mint advertises; null where it advertises no batches
   */
  async askTogether(due: readonly string[], maxBatchSize: number | null): Promise<PollResult> {
    const limit = maxBatchSize ?? UNADVERTISED_BATCH_SIZE;
    const batch = due
      .filter((id) => !this.#isAskedAlone(id))
      .slice(0, Math.min(this.#batchSize, limit));
    if (batch.length === 0) {
      return NOTHING;
    }
    return withoutTheOnly(due, await this.#askBatch(batch, limit));
  }

  /** Asks for the first of these quotes that has to be asked by itself; as {@link askTogether}. */
  async askAlone(due: readonly string[]): Promise<PollResult> {
    const quoteId = due.find((id) => this.#isAskedAlone(id));
    return quoteId === undefined ? NOTHING : withoutTheOnly(due, await this.#askOne(quoteId));
  }

  async #askBatch(batch: string[], limit: number): Promise<PollResult> {
    const answer = await this.#client.checkQuotes(this.#mintUrl, batch);
    this.#isMintSilent = answer.outcome === 'unavailable';
    switch (answer.outcome) {
      case 'found': {
        this.#failuresAtOne = 0;
        this.#readsAlone = false;
        this.#probe = null;
        this.#batchSize = Math.min(this.#batchSize * 2, limit);
        const answered = new Set(answer.observations.map((each) => each.quoteId));
        this.#askAloneFromNowOn(batch.filter((id) => !answered.has(id)));
        return { observations: answer.observations, unanswered: [] };
      }
      case 'refused':
        if (!BAD_ID_STATUSES.has(answer.status)) {
          return this.#afterFailure(batch);
        }
        this.#halve(batch);
        this.#askAloneFromNowOn(batch.length === 1 ? batch : []);
        return NOTHING;
      case 'unavailable':
        return this.#afterFailure(batch);
      case 'unsupported':
        this.#stopBatches();
        return NOTHING;
      case 'rate_limited':
        return NOTHING;
    }
  }

  async #askOne(quoteId: string): Promise<PollResult> {
    const answer = await this.#client.readQuote(this.#mintUrl, quoteId);
    this.#isMintSilent = answer.outcome === 'unavailable';
    switch (answer.outcome) {
      case 'found':
        this.#alone.delete(quoteId);
        this.#readsAlone = true;
        this.#probe = null;
        return { observations: [answer.observation], unanswered: [] };
      case 'not_found':
        this.#readsAlone = true;
        this.#probe = null;
        // To the recipient, a quote that the mint does not know is as good as an unpaid one.
        return { observations: [{ quoteId, state: 'UNPAID' }], unanswered: [] };
      case 'unavailable':
        this.#readsAlone = false;
        return { observations: [], unanswered: [quoteId] };
      case 'rate_limited':
        return NOTHING;
    }
  }

  #hasBatches(): boolean {
    return this.#clock() >= this.#noBatchesUntilMs;
  }

  #isAskedAlone(quoteId: string): boolean {
    return (
      this.#alone.has(quoteId) || this.#probe === quoteId || this.isBridging || !this.#hasBatches()
    );
  }

  /**
   * A batch that failed is halved; one of a single id makes way for the next. After several, one id
   * is asked alone: where the mint answers that and then fails at a batch again, it is the route that
   * is broken, and not the mint.
   */
  #afterFailure(batch: readonly string[]): PollResult {
    this.#halve(batch);
    if (batch.length > 1) {
      return NOTHING;
    }
    if (this.#failuresAtOne === 0) {
      // What was read before does not tell how the mint is now.
      this.#readsAlone = false;
    }
    this.#failuresAtOne += 1;
    if (this.#failuresAtOne >= FAILURES_OF_A_BROKEN_ROUTE) {
      if (this.#readsAlone) {
        this.#stopBatches();
      } else {
        this.#probe = batch[0] ?? null;
      }
    }
    return { observations: [], unanswered: [...batch] };
  }

  #stopBatches(): void {
    this.#failuresAtOne = 0;
    this.#probe = null;
    this.#noBatchesUntilMs = this.#clock() + BATCHES_AGAIN_AFTER_MS;
  }

  #halve(batch: readonly string[]): void {
    this.#batchSize = Math.max(1, Math.floor(batch.length / 2));
  }

  #askAloneFromNowOn(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#alone.add(quoteId);
    }
    for (const longestRemembered of this.#alone) {
      if (this.#alone.size <= MAX_ALONE) {
        return;
      }
      this.#alone.delete(longestRemembered);
    }
  }
}

/** A quote makes way for others; where it is the only one due, its mint's rest is wait enough. */
function withoutTheOnly(due: readonly string[], result: PollResult): PollResult {
  return due.length > 1 ? result : { ...result, unanswered: [] };
}

const NOTHING: PollResult = { observations: [], unanswered: [] };
