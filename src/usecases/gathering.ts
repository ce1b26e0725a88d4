import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../log.ts';

/** A database that does not answer must not hold up the end. */
const LAST_WRITE_MS = 1_000;

/** How {@link Gathering} goes about it. */
export interface GatheringOptions<Item> {
  /** Writes what was gathered, the oldest first; there is always something. */
  write: (items: readonly Item[]) => Promise<void>;
  /** How long things are gathered, from the first on, before they are written. */
  gatherMs: number;
  /** Most that waits to be written; the oldest are dropped beyond it. */
  maxWaiting: number;
  /** Logged where writing fails, once until it is well again. */
  failureMessage: string;
  log: Log;
}

/**
 * Gathers what comes one by one and writes it together, never twice at a time. It is for what may be
 * lost: what cannot be written is logged and dropped.
 */
export class Gathering<Item> {
  readonly #options: GatheringOptions<Item>;
  #waiting: Item[] = [];
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  #isFailing = false;
  #isStopping = false;

  constructor(options: GatheringOptions<Item>) {
    this.#options = options;
  }

  /** Takes one more; it is written soon. */
  add(item: Item): void {
    if (this.#isStopping) {
      return;
    }
    this.#waiting.push(item);
    if (this.#waiting.length > this.#options.maxWaiting) {
      this.#waiting.shift();
    }
    this.#writeSoon();
  }

  /** Writes what is left, as far as that takes no longer than a second; nothing is taken any more. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#timer ?? undefined);
    await Promise.race([this.#writeRest(), delay(LAST_WRITE_MS, undefined, { ref: false })]);
  }

  async #writeRest(): Promise<void> {
    await this.#writing;
    await this.#write();
  }

  #writeSoon(): void {
    if (this.#timer !== null || this.#writing !== null || this.#isStopping) {
      return;
    }
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#writing = this.#write().finally(() => {
        this.#writing = null;
        if (this.#waiting.length > 0) {
          this.#writeSoon();
        }
      });
    }, this.#options.gatherMs);
  }

  async #write(): Promise<void> {
    const items = this.#waiting;
    if (items.length === 0) {
      return;
    }
    this.#waiting = [];
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
