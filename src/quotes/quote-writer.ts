import { setImmediate as nextTurn } from 'node:timers/promises';
import type { NewQuote } from './quote-store.ts';
import type { Store } from '../store.ts';

/** Quotes of one statement; more wait for the next one. */
const MAX_BATCH = 100;

interface Waiting {
  quote: NewQuote;
  resolve: (id: number | null) => void;
  reject: (error: unknown) => void;
}

/**
 * Stores new quotes. Quotes that arrive during a commit share the next one, because a synced commit takes far longer than
 * an insert, and on SQLite it blocks the process.
 */
export class QuoteWriter {
  readonly #quotes: Pick<Store['quotes'], 'insert'>;
  #waiting: Waiting[] = [];
  #isWriting = false;

  constructor(quotes: Pick<Store['quotes'], 'insert'>) {
    this.#quotes = quotes;
  }

  /** Resolves after the commit. @returns the row id, or null if a quote of that mint and id exists already */
  insert(quote: NewQuote): Promise<number | null> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ quote, resolve, reject });
      if (!this.#isWriting) {
        void this.#writeAll();
      }
    });
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      // Quotes whose mints have already answered join the batch.
      await nextTurn();
      const batch = this.#waiting.splice(0, MAX_BATCH);
      try {
        const ids = await this.#quotes.insert(batch.map(({ quote }) => quote));
        for (const [i, { resolve }] of batch.entries()) {
          resolve(ids[i] ?? null);
        }
      } catch (error) {
        for (const { reject } of batch) {
          reject(error);
        }
      }
    }
    this.#isWriting = false;
  }
}
