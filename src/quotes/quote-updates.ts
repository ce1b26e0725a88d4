import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { type Logger, logMilestone } from '../log.ts';
import { BatchWriter } from './batch-writer.ts';
import type { QuoteUpdate } from './process-notifications.ts';
import { addQuoteEvents, listUpdatesSince } from './quote-event-store.ts';
import { MAX_AHEAD_MS } from './quote-state.ts';

/** One write per second is cheap, and the history may be late. */
const LOG_BATCH_DELAY_MS = 1_000;

/** Creates a log of the updates that were sent. Writes them to the history of the quotes and to the service's log. */
export function createUpdateLog(db: Db, clock: Clock, log: Logger) {
  const writer = new BatchWriter<
    Pick<QuoteUpdate, 'id' | 'pubkey'> & { atMs: number; socketCount: number }
  >({
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
    delayMs: LOG_BATCH_DELAY_MS,
  });
  return {
    /** Records an update that was sent to at least one socket. */
    add({ id, pubkey }: Pick<QuoteUpdate, 'id' | 'pubkey'>, socketCount: number): void {
      if (socketCount > 0) {
        writer.add({ id, pubkey, atMs: clock(), socketCount });
      }
    },
    stop: () => writer.stop(),
  };
}

/**
 * Changes that this process missed may be dated this long before it missed them. The process that records a change
 * dates it before the commit, by its own clock, so the database's clock does not matter. Clocks differ by about a
 * second, and a commit may wait about 40 s for a synchronous standby that has failed (Patroni with its defaults).
 */
const REPLAY_MARGIN_MS = 60_000;

export interface UpdateSenderDeps {
  db: Db;
  subscribers: Pick<QuoteSubscribers, 'listPubkeys' | 'sendUpdate'>;
  onUpdateSent: (update: QuoteUpdate, socketCount: number) => void;
  clock: Clock;
  log: Logger;
}

/** Sends updates to the sockets of this process, each when its payment is in the recipient's list. */
export class UpdateSender {
  readonly #deps: UpdateSenderDeps;
  /**
   * The timers of updates for payments that are not listed yet, by `quotes.id`. They run even if the recipient has no
   * socket, because a wallet that connects now does not find the payment in the list.
   */
  readonly #timers = new Map<number, NodeJS.Timeout>();

  constructor(deps: UpdateSenderDeps) {
    this.#deps = deps;
  }

  send(update: QuoteUpdate): void {
    const { subscribers, onUpdateSent, clock } = this.#deps;
    const sendNow = () => {
      this.#timers.delete(update.id);
      onUpdateSent(update, subscribers.sendUpdate(update.pubkey, update.quoteId));
    };
    const delayMs = (update.listedAtMs ?? 0) - clock();
    clearTimeout(this.#timers.get(update.id));
    // If the clock was set back, the payment is listed at once.
    if (delayMs <= 0 || delayMs > MAX_AHEAD_MS) {
      sendNow();
    } else {
      this.#timers.set(update.id, setTimeout(sendNow, delayMs).unref());
    }
  }

  /**
   * Sends the updates that the sockets of this process may have missed, and those that wait for their listing. Sockets
   * may receive some updates twice.
   *
   * @param sinceMs when this process last received notifications (milliseconds since 1970)
   */
  async replayMissed(sinceMs: number): Promise<void> {
    const { db, subscribers, clock, log } = this.#deps;
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

  stop(): void {
    for (const timer of this.#timers.values()) {
      clearTimeout(timer);
    }
  }
}

/** A wallet's socket that has authenticated for a key. */
export interface QuoteSubscriber {
  /** Sends an update. Returns whether the connection accepted it. */
  sendUpdate(quoteId: string): boolean;
  /** Closes the socket, because its key has too many sockets. */
  evict(): void;
}

/** The authenticated sockets of this process by key, the oldest first. */
export class QuoteSubscribers {
  readonly #byPubkey = new Map<string, Set<QuoteSubscriber>>();
  readonly #maxPerKey: number;

  /** @param maxPerKey 0: no limit */
  constructor(maxPerKey = 0) {
    this.#maxPerKey = maxPerKey;
  }

  /**
   * Adds a socket. Beyond the limit, evicts the key's oldest socket, which is the likeliest to be dead: a phone that
   * changes networks leaves a half-open connection behind.
   */
  add(pubkey: string, subscriber: QuoteSubscriber): void {
    const subscribers = this.#byPubkey.get(pubkey) ?? new Set();
    subscribers.add(subscriber);
    this.#byPubkey.set(pubkey, subscribers);
    const [oldest] = subscribers;
    if (this.#maxPerKey > 0 && subscribers.size > this.#maxPerKey) {
      oldest?.evict();
    }
  }

  remove(pubkey: string, subscriber: QuoteSubscriber): void {
    const subscribers = this.#byPubkey.get(pubkey);
    subscribers?.delete(subscriber);
    if (subscribers?.size === 0) {
      this.#byPubkey.delete(pubkey);
    }
  }

  listPubkeys(): string[] {
    return [...this.#byPubkey.keys()];
  }

  /** Sends an update to every socket of a key. Returns how many accepted it. */
  sendUpdate(pubkey: string, quoteId: string): number {
    const subscribers = [...(this.#byPubkey.get(pubkey) ?? [])];
    return subscribers.filter((subscriber) => subscriber.sendUpdate(quoteId)).length;
  }
}
