import type { Clock } from '../domain/clock.ts';
import type { QuoteObservation } from '../domain/quote.ts';
import type { PacedMintClient } from '../mint/paced-mint-client.ts';
import { BadIdSearch } from './bad-id-search.ts';

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

/**
 * While a bad id is looked for, one batch in three is of other quotes. Three, as the caller's order
 * of classes comes again every four: so each class is first in some of those batches.
 */
const TURNS_OF_A_SEARCH = 3;

/** As many ids, of which each was refused as a batch and known when read, are a broken batch route. */
const KNOWN_IDS_OF_A_BROKEN_ROUTE = 3;

/**
 * How long an id is asked alone. One that a batch left out, or that was unknown, may be well by the
 * time that it is read; one that the mint knew, and yet refused a batch for, spoils the next as well.
 */
type AskedAlone = 'until read' | 'always';

/** What came of asking. */
export interface PollResult {
  observations: QuoteObservation[];
  /** Asked for, without an answer that can be used, where the mint as such may be well. */
  unanswered: string[];
}

/**
 * Asks one mint about quotes, in batches where it has them (NUT-29), else one by one (NUT-23).
 *
 * One id that a mint does not know fails a whole batch: it is looked for ({@link BadIdSearch}),
 * while other quotes have their turns, and asked by itself from then on. A batch that a mint cannot
 * answer in time is halved.
 */
export class PollRound {
  readonly #mintUrl: string;
  readonly #client: Pick<PacedMintClient, 'readQuote' | 'checkQuotes' | 'waitMs'>;
  readonly #clock: Clock;
  /** Ids to be asked alone, the longest remembered first. */
  readonly #alone = new Map<string, AskedAlone>();
  /** Those of the last due ids that are to be asked alone, and were not answered for yet. */
  #aloneAndDue: readonly string[] = [];
  readonly #badIds = new BadIdSearch();
  /** Batches that were sent: what they are for takes turns during a search. */
  #batchesSent = 0;
  /** Ids that were refused as a batch and known when read, and no batch was answered since. */
  readonly #refusedThoughKnown = new Set<string>();
  /** Milliseconds since 1970. */
  #noBatchesUntilMs = 0;
  #batchSize = UNADVERTISED_BATCH_SIZE;
  /** Batches of a single id that the mint did not answer, and it answered no batch since. */
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

  /** How many batches were sent, whatever came of them: what was only put off is not among them. */
  get batchesSent(): number {
    return this.#batchesSent;
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

  /** Whether the mint has batches, and does not have to rest from them for long. */
  get mayAskTogether(): boolean {
    return this.#hasBatches() && !this.isBridging;
  }

  /** How many due quotes are of use to the next round. */
  get size(): number {
    return this.mayAskTogether ? MOST_TOGETHER : CHOICE_ONE_BY_ONE;
  }

  /** Milliseconds until a request may go that is of use for what was due last; 0 is now. */
  waitMs(): number {
    const forBatch = this.#client.waitMs(this.#mintUrl, 'check');
    const forOne = this.#client.waitMs(this.#mintUrl, 'read');
    if (!this.#hasBatches()) {
      return forOne;
    }
    const isAnyAlone = this.#aloneAndDue.some((id) => this.#isAskedAlone(id));
    return isAnyAlone || this.isBridging ? Math.min(forBatch, forOne) : forBatch;
  }

  /** Lets go of quotes that need no more watching. */
  forget(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#alone.delete(quoteId);
    }
    this.#badIds.clear(quoteIds);
  }

  /**
   * Asks for as many of these quotes as one batch holds, or for some among which there is a bad
   * one, which need not be due.
   *
   * @param due ids, the most urgent first
   * @param maxBatchSize what the mint advertises; null where it advertises no batches
   */
  async askTogether(due: readonly string[], maxBatchSize: number | null): Promise<PollResult> {
    const limit = maxBatchSize ?? UNADVERTISED_BATCH_SIZE;
    const batch = this.mayAskTogether ? this.#nextBatch(due, limit) : [];
    const result = batch.length === 0 ? NOTHING : await this.#askBatch(batch, limit);
    this.#rememberAlone(due);
    return withoutTheOnly(due, result);
  }

  /** Asks for the first of these quotes that has to be asked by itself; as {@link askTogether}. */
  async askAlone(due: readonly string[]): Promise<PollResult> {
    const areAllAlone = !this.mayAskTogether;
    const quoteId = due.find((id) => areAllAlone || this.#isAskedAlone(id));
    const result = quoteId === undefined ? NOTHING : await this.#askOne(quoteId);
    const wasAsked = result !== NOTHING;
    this.#rememberAlone(wasAsked ? due.filter((id) => id !== quoteId) : due);
    return withoutTheOnly(due, result);
  }

  /** Either of what is due and unsuspected, or of suspects: neither holds up the other. */
  #nextBatch(due: readonly string[], limit: number): string[] {
    const most = Math.min(this.#batchSize, limit);
    const unsuspected = due
      .filter((id) => !this.#isAskedAlone(id) && !this.#badIds.isSuspect(id))
      .slice(0, most);
    if (this.#badIds.size === 0) {
      return unsuspected;
    }
    const isForOthers =
      this.#batchesSent % TURNS_OF_A_SEARCH === 0 && this.#badIds.size < MOST_TOGETHER;
    return isForOthers && unsuspected.length > 0 ? unsuspected : this.#badIds.next(due, most);
  }

  async #askBatch(batch: string[], limit: number): Promise<PollResult> {
    const answer = await this.#client.checkQuotes(this.#mintUrl, batch);
    // A batch that was only put off keeps its turn.
    this.#batchesSent += answer.outcome === 'rate_limited' ? 0 : 1;
    this.#isMintSilent = answer.outcome === 'unavailable';
    switch (answer.outcome) {
      case 'found': {
        this.#failuresAtOne = 0;
        this.#readsAlone = false;
        this.#probe = null;
        this.#refusedThoughKnown.clear();
        this.#badIds.clear(batch);
        this.#growAfter(batch, limit);
        const answered = new Set(answer.observations.map((each) => each.quoteId));
        this.#askAloneFromNowOn(
          batch.filter((id) => !answered.has(id)),
          'until read',
        );
        return { observations: answer.observations, unanswered: [] };
      }
      case 'refused': {
        const badId = this.#badIds.refused(batch);
        this.#askAloneFromNowOn(badId === null ? [] : [badId], 'always');
        return NOTHING;
      }
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
        this.#readsAlone = true;
        this.#probe = null;
        this.#badIds.clear([quoteId]);
        this.#afterKnown(quoteId);
        return { observations: [answer.observation], unanswered: [] };
      case 'not_found':
        this.#readsAlone = true;
        this.#probe = null;
        if (this.#alone.has(quoteId)) {
          // The mint may come to know it, as one that is restored from a backup.
          this.#alone.set(quoteId, 'until read');
        }
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
    const nowMs = this.#clock();
    // Never longer from now on than meant, should the clock have been ahead when it was set.
    this.#noBatchesUntilMs = Math.min(this.#noBatchesUntilMs, nowMs + BATCHES_AGAIN_AFTER_MS);
    return nowMs >= this.#noBatchesUntilMs;
  }

  /** Whether this id is asked alone even where others are asked together. */
  #isAskedAlone(quoteId: string): boolean {
    return this.#alone.has(quoteId) || this.#probe === quoteId;
  }

  #rememberAlone(due: readonly string[]): void {
    this.#aloneAndDue = due.filter((id) => this.#isAskedAlone(id));
  }

  /** The mint answered for this id alone. */
  #afterKnown(quoteId: string): void {
    if (this.#alone.get(quoteId) === 'until read') {
      this.#alone.delete(quoteId);
    }
    if (this.#alone.has(quoteId)) {
      this.#refusedThoughKnown.add(quoteId);
    }
    if (this.#refusedThoughKnown.size >= KNOWN_IDS_OF_A_BROKEN_ROUTE) {
      this.#stopBatches();
    }
  }

  /**
   * A batch that failed is halved; one of a single id makes way for the next, suspect or not. After
   * several, one id is asked alone: where the mint answers that and then fails at a batch again, it
   * is the route that is broken, and not the mint.
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
    this.#badIds.clear(batch);
    if (this.#failuresAtOne >= FAILURES_OF_A_BROKEN_ROUTE) {
      if (this.#readsAlone) {
        this.#stopBatches();
      } else {
        this.#probe = batch[0] ?? null;
      }
    }
    return { observations: [], unanswered: [...batch] };
  }

  /** Everything is asked alone for a while, and no id stays to blame. */
  #stopBatches(): void {
    this.#failuresAtOne = 0;
    this.#probe = null;
    this.#refusedThoughKnown.clear();
    this.#badIds.clearAll();
    this.#alone.clear();
    this.#noBatchesUntilMs = this.#clock() + BATCHES_AGAIN_AFTER_MS;
  }

  #halve(batch: readonly string[]): void {
    this.#batchSize = Math.max(1, Math.floor(batch.length / 2));
  }

  /** A small batch that went well says nothing of larger ones. */
  #growAfter(batch: readonly string[], limit: number): void {
    if (batch.length >= Math.min(this.#batchSize, limit)) {
      this.#batchSize = Math.min(this.#batchSize * 2, limit);
    }
  }

  #askAloneFromNowOn(quoteIds: readonly string[], howLong: AskedAlone): void {
    for (const quoteId of quoteIds) {
      this.#alone.set(quoteId, howLong);
    }
    for (const longestRemembered of this.#alone.keys()) {
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
