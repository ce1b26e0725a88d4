import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { type Logger, logMilestone } from '../log.ts';
import { BatchWriter } from './batch-writer.ts';
import type { QuoteUpdate } from './process-notifications.ts';
import { addQuoteEvents, listUpdatesSince } from './quote-event-store.ts';
import { MAX_AHEAD_MS } from './quote-state.ts';
import type { QuoteSubscribers } from './quote-subscribers.ts';

/** One write per second is cheap, and the history may be late. */
const HISTORY_BATCH_DELAY_MS = 1_000;

/**
 * Changes that this process missed may be dated this long before it missed them. The process that records a change
 * dates it before the commit, by its own clock, so the database's clock does not matter. Clocks differ by about a
 * second, and a commit may wait about 40 s for a synchronous standby that has failed (Patroni with its defaults).
 */
const REPLAY_MARGIN_MS = 60_000;

interface UpdateContext {
  db: Db;
  subscribers: QuoteSubscribers;
  clock: Clock;
  log: Logger;
}

/** Sends updates to the sockets of this process, each when its payment is in the recipient's list. */
export class UpdateSender {
  readonly #context: UpdateContext;
  /**
   * The timers of updates for payments that are not listed yet, by `quotes.id`. They run even if the recipient has no
   * socket, because a wallet that connects now does not find the payment in the list.
   */
  readonly #timers = new Map<number, NodeJS.Timeout>();
  readonly #history: BatchWriter<SentUpdate>;

  constructor(context: UpdateContext) {
    this.#context = context;
    this.#history = createHistoryWriter(context);
  }

  send(update: QuoteUpdate): void {
    const delayMs = (update.listedAtMs ?? 0) - this.#context.clock();
    clearTimeout(this.#timers.get(update.id));
    // If the clock was set back, the payment is listed at once.
    if (delayMs <= 0 || delayMs > MAX_AHEAD_MS) {
      this.#sendNow(update);
    } else {
      this.#timers.set(update.id, setTimeout(() => this.#sendNow(update), delayMs).unref());
    }
  }

  #sendNow({ id, pubkey, quoteId }: QuoteUpdate): void {
    const { subscribers, clock } = this.#context;
    this.#timers.delete(id);
    const socketCount = subscribers.sendUpdate(pubkey, quoteId);
    if (socketCount > 0) {
      this.#history.add({ id, pubkey, atMs: clock(), socketCount });
    }
  }

  /**
   * Sends the updates that the sockets of this process may have missed, and those that wait for their listing. Sockets
   * may receive some updates twice.
   *
   * @param sinceMs when this process last received notifications (milliseconds since 1970)
   */
  async replayMissed(sinceMs: number): Promise<void> {
    const { db, subscribers, clock, log } = this.#context;
    const updates = await listUpdatesSince(db, sinceMs - REPLAY_MARGIN_MS, {
      pubkeys: subscribers.listPubkeys(),
      nowMs: clock(),
    });
    for (const update of updates) {
      this.send(update);
    }
    if (updates.length > 0) {
      log.info(
        { event: 'updates_replayed', updates: updates.length },
        'replayed updates that sockets may have missed',
      );
    }
  }

  /** Resolves when the history is written. */
  async stop(): Promise<void> {
    for (const timer of this.#timers.values()) {
      clearTimeout(timer);
    }
    await this.#history.stop();
  }
}

interface SentUpdate {
  /** `quotes.id`. */
  id: number;
  pubkey: string;
  atMs: number;
  socketCount: number;
}

/** Creates the writer of sent updates to the history of the quotes and to the service's log. */
function createHistoryWriter({ db, log }: UpdateContext): BatchWriter<SentUpdate> {
  return new BatchWriter({
    write: async (updates) => {
      const paymentHashes = await addQuoteEvents(
        db,
        updates.map(({ id, atMs, socketCount }) => ({
          quoteRowId: id,
          atMs,
          kind: 'update_sent',
          socketCount,
        })),
      );
      for (const { id, pubkey, socketCount } of updates) {
        const detail = { pubkey, sockets: socketCount };
        logMilestone(log, 'update_sent', paymentHashes.get(id) ?? null, detail);
      }
    },
    onError: (error) =>
      log.warn(
        { event: 'update_log_failed', err: error },
        'could not record which updates were sent; the updates themselves were sent',
      ),
    delayMs: HISTORY_BATCH_DELAY_MS,
  });
}
