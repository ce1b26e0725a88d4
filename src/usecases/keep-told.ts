import type { Clock } from '../domain/clock.ts';
import { type Log, logTogether } from '../log.ts';
import type { QuoteUpdate } from '../notifications/quote-channel.ts';
import type { NewQuoteEvent } from '../store/quote-event-store.ts';
import type { Store } from '../store/store.ts';
import { Gathering } from './gathering.ts';
import { logMilestone } from './milestones.ts';

/** Nobody asks where a payment is within a second of it, and one write a second costs nothing. */
const GATHER_MS = 1_000;

/** What a database that does not answer leaves behind here; beyond it, the oldest are forgotten. */
const MAX_WAITING = 10_000;

type ToldEvent = Extract<NewQuoteEvent, { kind: 'told' }>;

/** Keeps and logs which updates wallets were sent, for whoever asks where a payment is. */
export class KeepTold {
  readonly #gathering: Gathering<ToldEvent>;
  readonly #clock: Clock;

  constructor(events: Pick<Store['events'], 'add' | 'paymentHashes'>, clock: Clock, log: Log) {
    this.#gathering = new Gathering({
      write: async (told) => {
        await events.add(told);
        if (log.isLevelEnabled('info')) {
          await tell(events, told, log);
        }
      },
      gatherMs: GATHER_MS,
      maxWaiting: MAX_WAITING,
      failureMessage: 'could not keep which updates were sent; they were sent all the same',
      log,
    });
    this.#clock = clock;
  }

  /** Keeps, soon, that so many sockets were sent an update; where there were none, nothing. */
  told({ id, pubkey }: Pick<QuoteUpdate, 'id' | 'pubkey'>, sockets: number): void {
    if (sockets > 0) {
      this.#gathering.add({ id, pubkey, atMs: this.#clock(), kind: 'told', sockets });
    }
  }

  /** Keeps what is not kept yet. */
  stop(): Promise<void> {
    return this.#gathering.stop();
  }
}

async function tell(
  events: Pick<Store['events'], 'paymentHashes'>,
  told: readonly ToldEvent[],
  log: Log,
): Promise<void> {
  const hashes = await events.paymentHashes(told.map(({ id }) => id));
  logTogether(log, () => {
    for (const { id, pubkey, sockets } of told) {
      logMilestone(log, 'told', hashes.get(id) ?? null, { pubkey, sockets });
    }
  });
}
