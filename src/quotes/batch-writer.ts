import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseUnavailableError } from '../errors.ts';
import { waitAtMost } from '../wait-at-most.ts';

/** A database that does not respond must not delay the shutdown. */
const FINAL_WRITE_TIMEOUT_MS = 1_000;

/** Writes items in batches, one batch at a time. An item that the database rejects fails alone. */
export class BatchWriter<Item> {
  readonly #options;
  readonly #stopController = new AbortController();
  readonly #queue: Item[] = [];
  #writing: Promise<void> | null = null;

  constructor(options: {
    write: (items: readonly Item[]) => Promise<void>;
    onError: (error: unknown, items: readonly Item[]) => void;
    /** How long items are collected before each batch. */
    delayMs: number;
    maxBatchSize?: number;
  }) {
    this.#options = options;
  }

  add(item: Item): void {
    this.#queue.push(item);
    this.#writing ??= this.#writeAll();
  }

  /** Writes the queued items immediately. Resolves when they are written, but after one second at the latest. */
  async stop(): Promise<void> {
    this.#stopController.abort();
    await waitAtMost(FINAL_WRITE_TIMEOUT_MS, this.#writing);
  }

  async #writeAll(): Promise<void> {
    const { delayMs, maxBatchSize = Number.POSITIVE_INFINITY } = this.#options;
    const { signal } = this.#stopController;
    while (this.#queue.length > 0) {
      await delay(delayMs, undefined, { signal }).catch(() => undefined);
      await this.#write(this.#queue.splice(0, maxBatchSize));
    }
    this.#writing = null;
  }

  async #write(items: readonly Item[]): Promise<void> {
    const { write, onError } = this.#options;
    try {
      await write(items);
    } catch (error) {
      if (items.length === 1 || error instanceof DatabaseUnavailableError) {
        onError(error, items);
        return;
      }
      for (const item of items) {
        await this.#write([item]);
      }
    }
  }
}
