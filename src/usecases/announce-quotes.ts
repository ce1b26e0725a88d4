import type { Log } from '../log.ts';
import { encodeIssued, ISSUED_CHANNEL, type IssuedQuote } from '../notifications/quote-channel.ts';
import type { Store } from '../store/store.ts';
import { Gathering } from './gathering.ts';

/**
 * PostgreSQL commits transactions that notify one after the other, so one of them announces the quotes of
 * this time. A payer takes longer to see the invoice.
 */
const GATHER_MS = 30;

/** Quotes that wait for a database that does not answer; the oldest are dropped beyond it. */
const MAX_WAITING = 10_000;

/**
 * Announces quotes that this process issued and does not watch, so that the process that watches the mint
 * subscribes to them at once. A quote whose announcement is lost is found by that process's next rescan.
 */
export class AnnounceQuotes {
  readonly #gathering: Gathering<IssuedQuote>;

  constructor(store: Pick<Store, 'transaction'>, log: Log) {
    this.#gathering = new Gathering({
      write: (quotes) => store.transaction((tx) => tx.notify(ISSUED_CHANNEL, encodeIssued(quotes))),
      gatherMs: GATHER_MS,
      maxWaiting: MAX_WAITING,
      failureMessage:
        'could not announce new quotes to other processes; their rescan will find them',
      log,
    });
  }

  /** Announces a quote soon, together with others. */
  announce(quote: IssuedQuote): void {
    this.#gathering.add(quote);
  }

  /** Announces what is not announced yet. */
  stop(): Promise<void> {
    return this.#gathering.stop();
  }
}
