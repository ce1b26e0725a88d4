import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { QuoteUpdate } from './quote-channel.ts';
import type { NewQuoteEvent } from './quote-event-store.ts';
import type { Store } from '../store.ts';
import { BatchWriter } from './batch-writer.ts';
import { logMilestone } from './milestones.ts';

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
