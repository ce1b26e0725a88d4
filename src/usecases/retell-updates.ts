import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../log.ts';
import type { QuoteUpdate } from '../notifications/quote-channel.ts';
import type { QuoteSubscribers } from '../notifications/quote-subscribers.ts';
import type { Store } from '../store/store.ts';

/**
 * A change is stamped by the clock of the process that recorded it, before the transaction commits.
 * Clocks differ by a second or so, and no statement takes longer than half a minute.
 */
const MARGIN_MS = 60_000;

/** Keys that one query asks for. */
const PUBKEYS_AT_ONCE = 1_000;

/** A database that just came back may go away once more. */
const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 10_000;

/** A database that does not answer must not hold up the end. */
const LAST_QUERY_MS = 1_000;

/**
 * Tells sockets again what they may have missed while this process could not hear what others told.
 * An update that comes twice does no harm, one that is missed does.
 */
export class RetellUpdates {
  readonly #events: Pick<Store['events'], 'changedSince'>;
  readonly #subscribers: Pick<QuoteSubscribers, 'pubkeys' | 'tell'>;
  readonly #onTold: (update: QuoteUpdate, sockets: number) => void;
  readonly #log: Log;
  readonly #stopping = new AbortController();
  /** From when on changes are still to be told; null where all is told. */
  #sinceMs: number | null = null;
  #telling: Promise<void> | null = null;

  /** @param parts.onTold told of each update, with how many sockets here were sent it */
  constructor(parts: {
    events: Pick<Store['events'], 'changedSince'>;
    subscribers: Pick<QuoteSubscribers, 'pubkeys' | 'tell'>;
    onTold: (update: QuoteUpdate, sockets: number) => void;
    log: Log;
  }) {
    this.#events = parts.events;
    this.#subscribers = parts.subscribers;
    this.#onTold = parts.onTold;
    this.#log = parts.log;
  }

  /**
   * Begins to tell what changed since a time, and goes on until all is told, however often the
   * database goes away meanwhile.
   *
   * @param sinceMs when this process last heard all that others told (milliseconds since 1970)
   */
  begin(sinceMs: number): void {
    this.#sinceMs = Math.min(sinceMs, this.#sinceMs ?? sinceMs);
    this.#telling ??= this.#tellUntilDone().finally(() => {
      this.#telling = null;
    });
  }

  /** Tells no more; resolves when the query under way, if any, has ended, or is not going to. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.race([this.#telling, delay(LAST_QUERY_MS, undefined, { ref: false })]);
  }

  async #tellUntilDone(): Promise<void> {
    const { signal } = this.#stopping;
    let waitMs = FIRST_RETRY_MS;
    while (this.#sinceMs !== null && !signal.aborted) {
      const sinceMs = this.#sinceMs;
      this.#sinceMs = null;
      try {
        await this.#tellAgain(sinceMs);
      } catch (error) {
        this.#log.warn({ err: error }, 'could not read yet what sockets may have missed');
        this.#sinceMs = Math.min(sinceMs, this.#sinceMs ?? sinceMs);
        await delay(waitMs, undefined, { signal }).catch(() => undefined);
        waitMs = Math.min(waitMs * 2, LONGEST_RETRY_MS);
      }
    }
  }

  async #tellAgain(sinceMs: number): Promise<void> {
    const pubkeys = this.#subscribers.pubkeys();
    let updates = 0;
    for (let first = 0; first < pubkeys.length; first += PUBKEYS_AT_ONCE) {
      const some = pubkeys.slice(first, first + PUBKEYS_AT_ONCE);
      for (const update of await this.#events.changedSince(sinceMs - MARGIN_MS, some)) {
        this.#onTold(update, this.#subscribers.tell(update.pubkey, update.quoteId));
        updates += 1;
      }
    }
    this.#log.info({ updates }, 'told sockets again what they may have missed');
  }
}
