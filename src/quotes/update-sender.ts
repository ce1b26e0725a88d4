import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { retryLogLevel } from '../errors.ts';
import { type Logger, logMilestone } from '../log.ts';
import { BatchWriter } from './batch-writer.ts';
import type { QuoteUpdate } from './process-notifications.ts';
import { addQuoteEvents, listUpdatesSince } from './quote-event-store.ts';
import { MAX_AHEAD_MS } from './quote-state.ts';

/**
 * A change is dated before its commit, by the clock of the process that records it. That clock may have been set back
 * until NTP corrects it, and a commit may wait about 40 s for a synchronous standby that has failed (Patroni with its
 * defaults).
 */
const REPLAY_MARGIN_MS = 180_000;

interface UpdateContext {
  db: Db;
  subscribers: QuoteSubscribers;
  clock: Clock;
  log: Logger;
}

/** Sends updates to the sockets of this process. An update waits until its payment is in the recipient's list. */
export class UpdateSender {
  readonly #context: UpdateContext;
  /** By `quotes.id`. Set even without a socket: a wallet that connects meanwhile does not find the payment in the list. */
  readonly #timers = new Map<number, NodeJS.Timeout>();
  readonly #history: ReturnType<typeof createHistoryWriter>;

  constructor(context: UpdateContext) {
    this.#context = context;
    this.#history = createHistoryWriter(context);
  }

  /** Sends an update now, or when its payment is listed. */
  send(update: QuoteUpdate): void {
    const nowMs = this.#context.clock();
    const delayMs = (update.listedAtMs ?? nowMs) - nowMs;
    clearTimeout(this.#timers.get(update.id));
    // A payment in the far future was recorded before the clock was set back, and is listed at once.
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
   * Sends the updates that sockets may have missed since this process last received notifications (milliseconds since
   * 1970), and schedules those of payments that are not listed yet. Sockets may receive some updates twice.
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

  async stop(): Promise<void> {
    for (const timer of this.#timers.values()) {
      clearTimeout(timer);
    }
    await this.#history.stop();
  }
}

/** Creates the writer that adds sent updates to the history of their quotes and to the log. */
function createHistoryWriter({ db, log }: UpdateContext) {
  return new BatchWriter<{ id: number; pubkey: string; atMs: number; socketCount: number }>({
    write: async (updates) => {
      const kind = 'update_sent';
      const paymentHashes = await addQuoteEvents(
        db,
        updates.map(({ id, atMs, socketCount }) => ({ quoteRowId: id, atMs, kind, socketCount })),
      );
      for (const { id, pubkey, socketCount } of updates) {
        const detail = { pubkey, sockets: socketCount };
        logMilestone(log, kind, paymentHashes.get(id) ?? null, detail);
      }
    },
    onError: (error) =>
      log[retryLogLevel(error)](
        { event: 'update_log_failed', err: error },
        'could not record which updates were sent; the updates themselves were sent',
      ),
    delayMs: 1_000,
  });
}

export interface QuoteSubscriber {
  /** Returns whether the connection accepted the update. */
  sendUpdate(quoteId: string): boolean;
  evict(): void;
}

/** The authenticated sockets of this process by key, the oldest first. */
export class QuoteSubscribers {
  readonly #byPubkey = new Map<string, Set<QuoteSubscriber>>();
  readonly #maxPerKey: number;

  /** @param maxPerKey 0: no limit */
  constructor(maxPerKey: number) {
    this.#maxPerKey = maxPerKey;
  }

  /**
   * Adds a socket of a key. If the key has too many, evicts the oldest, which is most likely dead: a phone that changes
   * networks leaves a half-open connection behind.
   */
  add(pubkey: string, subscriber: QuoteSubscriber): void {
    const subscribers = this.#byPubkey.getOrInsertComputed(pubkey, () => new Set());
    subscribers.add(subscriber);
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
