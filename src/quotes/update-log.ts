import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store.ts';
import { BatchWriter } from './batch-writer.ts';
import { logMilestone } from './milestones.ts';
import type { QuoteUpdate } from './quote-channel.ts';
import type { NewQuoteEvent } from './quote-event-store.ts';
import type { QuoteSubscribers } from './quote-subscribers.ts';

/** One write a second costs nothing, and an operator who traces a payment does not notice the delay. */
const DELAY_MS = 1_000;

/** An update that was sent to sockets of its recipient. */
interface SentUpdate extends Pick<QuoteUpdate, 'id' | 'pubkey'> {
  /** Milliseconds since 1970. */
  atMs: number;
  sockets: number;
}

/** Stores and logs which updates wallets were sent. */
export function openUpdateLog(events: Pick<Store['events'], 'add'>, clock: Clock, log: Log) {
  const batches = new BatchWriter<SentUpdate>({
    write: async (updates) => {
      const hashes = await events.add(updates.map(toEvent));
      for (const { id, pubkey, sockets } of updates) {
        logMilestone(log, 'told', hashes.get(id) ?? null, { pubkey, sockets });
      }
    },
    delayMs: DELAY_MS,
    failureMessage: 'could not store which updates were sent; the updates were sent',
    log,
  });
  return {
    /** Records an update, unless no socket was sent it. */
    add({ id, pubkey }: Pick<QuoteUpdate, 'id' | 'pubkey'>, sockets: number): void {
      if (sockets > 0) {
        batches.add({ id, pubkey, atMs: clock(), sockets });
      }
    },
    stop: () => batches.stop(),
  };
}

function toEvent({ id, atMs, sockets }: SentUpdate): NewQuoteEvent {
  return { id, atMs, kind: 'told', sockets };
}

/**
 * A change has the time of the process that recorded it, from before its transaction committed. Clocks differ by a
 * second or so, and no statement takes longer than half a minute.
 */
const MARGIN_MS = 60_000;

/** Keys in one query. */
const PUBKEYS_PER_QUERY = 1_000;

/**
 * Sends the sockets of this process the updates that it may have missed. A repeated update does no harm.
 *
 * @param sinceMs when this process last received notifications (milliseconds since 1970)
 * @param parts.onTold called with each update and the number of sockets that were sent it
 */
export async function replayUpdates(
  sinceMs: number,
  parts: {
    events: Pick<Store['events'], 'changedSince'>;
    subscribers: Pick<QuoteSubscribers, 'pubkeys' | 'tell'>;
    onTold: (update: QuoteUpdate, sockets: number) => void;
    log: Log;
  },
): Promise<void> {
  const { events, subscribers, onTold, log } = parts;
  const pubkeys = subscribers.pubkeys();
  let updates = 0;
  for (let first = 0; first < pubkeys.length; first += PUBKEYS_PER_QUERY) {
    const some = pubkeys.slice(first, first + PUBKEYS_PER_QUERY);
    for (const update of await events.changedSince(sinceMs - MARGIN_MS, some)) {
      onTold(update, subscribers.tell(update.pubkey, update.quoteId));
      updates += 1;
    }
  }
  log.info({ updates }, 'replayed updates that sockets may have missed');
}
