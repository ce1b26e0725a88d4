import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../log.ts';

/** A database that does not answer must not delay the shutdown. */
const LAST_WRITE_MS = 1_000;

/** Items that wait for a database that does not answer; the oldest are dropped beyond it. */
const MAX_WAITING = 10_000;

export interface BatchWriterOptions<Item> {
  /** Writes a batch, which is never empty. */
  write: (items: readonly Item[]) => Promise<void>;
  /** How long items are collected before they are written. */
  delayMs: number;
  /** Logged for the first failure in a row. */
  failureMessage: string;
  log: Log;
}

/** Writes items in batches, one batch at a time. It is for items that may be lost: a failed batch is dropped. */
export class BatchWriter<Item> {
  readonly #options: BatchWriterOptions<Item>;
  readonly #stopping = new AbortController();
  #waiting: Item[] = [];
  #writing: Promise<void> | null = null;
  #isFailing = false;

  constructor(options: BatchWriterOptions<Item>) {
    this.#options = options;
  }

  add(item: Item): void {
    if (this.#stopping.signal.aborted) {
      return;
    }
    this.#waiting.push(item);
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift();
    }
    this.#writing ??= this.#writeAll();
  }

  /** Writes what is left, for at most a second. Items that are added later are ignored. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.race([this.#writing, delay(LAST_WRITE_MS, undefined, { ref: false })]);
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const { signal } = this.#stopping;
      await delay(this.#options.delayMs, undefined, { signal }).catch(() => undefined);
      const items = this.#waiting;
      this.#waiting = [];
      await this.#write(items);
    }
    this.#writing = null;
  }

  async #write(items: readonly Item[]): Promise<void> {
    const { write, failureMessage, log } = this.#options;
    try {
      await write(items);
      this.#isFailing = false;
    } catch (error) {
      log[this.#isFailing ? 'debug' : 'warn']({ err: error }, failureMessage);
      this.#isFailing = true;
    }
  }
}
