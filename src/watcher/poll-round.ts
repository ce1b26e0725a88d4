import type { QuoteObservation } from '../domain/quote.ts';
import type { PacedMintClient } from '../mint/paced-mint-client.ts';

/** A batch where the mint names no bound (NUT-29): what every mint that has batches takes. */
const DEFAULT_BATCH_SIZE = 100;

/**
 * Ids that spoil a batch are asked one by one; more of them than this are not remembered. Half of
 * what is looked at in one round, so that they never crowd out the others.
 */
const MAX_SINGLES = 500;

/**
 * Asks one mint about quotes, in batches where it has them (NUT-29), else one by one (NUT-23).
 *
 * One id that a mint does not know fails a whole batch: the batch is halved until the id stands
 * alone, and from then on it is asked by itself.
 */
export class PollRound {
  readonly #mintUrl: string;
  readonly #client: Pick<PacedMintClient, 'readQuote' | 'checkQuotes' | 'waitMs'>;
  readonly #singles = new Set<string>();
  #hasBatches = true;
  #batchSize = DEFAULT_BATCH_SIZE;

  constructor(
    mintUrl: string,
    client: Pick<PacedMintClient, 'readQuote' | 'checkQuotes' | 'waitMs'>,
  ) {
    this.#mintUrl = mintUrl;
    this.#client = client;
  }

  /** Milliseconds until the mint may be asked again; 0 is now. */
  waitMs(): number {
    return this.#client.waitMs(this.#mintUrl, this.#hasBatches ? 'check' : 'read');
  }

  /**
   * Asks for as many of these quotes as one batch holds.
   *
   * @param due ids, the most urgent first
   * @param maxBatchSize what the mint advertises; null where it names no bound
   * @returns what the mint said; nothing where it did not answer
   */
  async askTogether(
    due: readonly string[],
    maxBatchSize: number | null,
  ): Promise<QuoteObservation[]> {
    const limit = maxBatchSize ?? DEFAULT_BATCH_SIZE;
    const batch = due
      .filter((id) => !this.#isAskedAlone(id))
      .slice(0, Math.min(this.#batchSize, limit));
    return batch.length === 0 ? [] : this.#askBatch(batch, limit);
  }

  /** Asks for the first of these quotes that has to be asked by itself; as {@link askTogether}. */
  async askAlone(due: readonly string[]): Promise<QuoteObservation[]> {
    const single = due.find((id) => this.#isAskedAlone(id));
    return single === undefined ? [] : this.#askOne(single);
  }

  #isAskedAlone(quoteId: string): boolean {
    return !this.#hasBatches || this.#singles.has(quoteId);
  }

  async #askBatch(batch: string[], limit: number): Promise<QuoteObservation[]> {
    const answer = await this.#client.checkQuotes(this.#mintUrl, batch);
    switch (answer.outcome) {
      case 'found': {
        this.#batchSize = Math.min(this.#batchSize * 2, limit);
        const answered = new Set(answer.observations.map((each) => each.quoteId));
        this.#askSinglyFromNowOn(batch.filter((id) => !answered.has(id)));
        return answer.observations;
      }
      case 'refused':
        if (batch.length === 1) {
          this.#askSinglyFromNowOn(batch);
        }
        this.#batchSize = Math.max(1, Math.floor(batch.length / 2));
        return [];
      case 'unsupported':
        this.#hasBatches = false;
        return [];
      case 'rate_limited':
      case 'unavailable':
        return [];
    }
  }

  async #askOne(quoteId: string): Promise<QuoteObservation[]> {
    const answer = await this.#client.readQuote(this.#mintUrl, quoteId);
    switch (answer.outcome) {
      case 'found':
        return [answer.observation];
      case 'not_found':
        // To the recipient, a quote that the mint does not know is as good as an unpaid one.
        return [{ quoteId, state: 'UNPAID' }];
      case 'rate_limited':
      case 'unavailable':
        return [];
    }
  }

  #askSinglyFromNowOn(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      if (this.#singles.size < MAX_SINGLES) {
        this.#singles.add(quoteId);
      }
    }
  }
}
