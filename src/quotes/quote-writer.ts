import { BatchWriter } from './batch-writer.ts';
import type { NewQuote } from './quote-store.ts';

const MAX_INSERTS_PER_COMMIT = 100;

interface QueuedQuote {
  quote: NewQuote;
  resolve: (id: number | null) => void;
  reject: (error: unknown) => void;
}

/**
 * Stores new quotes. Quotes that arrive during a commit share the next commit, because a commit, which waits for the
 * disk, takes much longer than an insert.
 */
export class QuoteWriter {
  readonly #writer: BatchWriter<QueuedQuote>;

  constructor(insert: (quotes: readonly NewQuote[]) => Promise<(number | null)[]>) {
    this.#writer = new BatchWriter({
      write: async (batch) => {
        const ids = await insert(batch.map(({ quote }) => quote));
        for (const [i, { resolve }] of batch.entries()) {
          resolve(ids[i] ?? null);
        }
      },
      onError: (error, batch) => {
        for (const { reject } of batch) {
          reject(error);
        }
      },
      delayMs: 0,
      maxBatchSize: MAX_INSERTS_PER_COMMIT,
    });
  }

  /** Resolves after the commit with the row id, or with null if the quote id is already stored for its mint. */
  insert(quote: NewQuote): Promise<number | null> {
    return new Promise((resolve, reject) => this.#writer.add({ quote, resolve, reject }));
  }
}
