import type { Clock } from '../domain/clock.ts';
import type { Log } from '../log.ts';
import type { QuoteUpdate } from '../notifications/quote-channel.ts';
import type { NewQuoteEvent } from '../store/quote-event-store.ts';
import type { Store } from '../store/store.ts';
import { BatchWriter } from './batch-writer.ts';
import { logMilestone } from './milestones.ts';

/** Nobody asks where a payment is within a second of it, and one write a second costs nothing. */
const DELAY_MS = 1_000;

type ToldEvent = Extract<NewQuoteEvent, { kind: 'told' }>;

/** Keeps and logs which updates wallets were sent, for whoever asks where a payment is. */
export class KeepTold {
  readonly #batches: BatchWriter<ToldEvent>;
  readonly #clock: Clock;

  constructor(events: Pick<Store['events'], 'add' | 'paymentHashes'>, clock: Clock, log: Log) {
    this.#batches = new BatchWriter({
      write: async (told) => {
        await events.add(told);
        if (log.isLevelEnabled('info')) {
          await tell(events, told, log);
        }
      },
      delayMs: DELAY_MS,
      failureMessage: 'could not keep which updates were sent; they were sent all the same',
      log,
    });
    this.#clock = clock;
  }

  /** Keeps, soon, that so many sockets were sent an update; where there were none, nothing. */
  told({ id, pubkey }: Pick<QuoteUpdate, 'id' | 'pubkey'>, sockets: number): void {
    if (sockets > 0) {
      this.#batches.add({ id, pubkey, atMs: this.#clock(), kind: 'told', sockets });
    }
  }

  /** Keeps what is not kept yet. */
  stop(): Promise<void> {
    return this.#batches.stop();
  }
}

async function tell(
  events: Pick<Store['events'], 'paymentHashes'>,
  told: readonly ToldEvent[],
  log: Log,
): Promise<void> {
  const hashes = await events.paymentHashes(told.map(({ id }) => id));
  for (const { id, pubkey, sockets } of told) {
    logMilestone(log, 'told', hashes.get(id) ?? null, { pubkey, sockets });
  }
}
