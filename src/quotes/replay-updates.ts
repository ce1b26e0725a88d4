import type { Log } from '../log.ts';
import type { QuoteUpdate } from './quote-channel.ts';
import type { QuoteSubscribers } from './quote-subscribers.ts';
import type { Store } from '../store.ts';

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
