import type { Log } from '../log.ts';
import { encodeIssued, ISSUED_CHANNEL, type IssuedQuote } from '../notifications/quote-channel.ts';
import type { Store } from '../store/store.ts';
import { Gathering } from './gathering.ts';

/**
 * In PostgreSQL, transactions that notify commit one after the other: one of them speaks for all
 * quotes of so long. A payer needs longer than that to see the invoice.
 */
const GATHER_MS = 30;

/** What a database that does not answer leaves behind here; beyond it, the oldest are forgotten. */
const MAX_WAITING = 10_000;

/**
 * Tells other processes of quotes that this one issued and does not watch, so that the one that
 * watches the mint puts them on its socket at once. What is not told is found in the database when
 * its first check is due, seconds later.
 */
export class AnnounceQuotes {
  readonly #gathering: Gathering<IssuedQuote>;

  constructor(store: Pick<Store, 'transaction'>, log: Log) {
    this.#gathering = new Gathering({
      write: (quotes) => store.transaction((tx) => tx.notify(ISSUED_CHANNEL, encodeIssued(quotes))),
      gatherMs: GATHER_MS,
      maxWaiting: MAX_WAITING,
      failureMessage: 'could not tell other processes of new quotes; their first checks will',
      log,
    });
  }

  /** Tells of a quote soon, together with others. */
  announce(mintUrl: string, quoteId: string): void {
    this.#gathering.add({ mintUrl, quoteId });
  }

  /** Tells what is not told yet. */
  stop(): Promise<void> {
    return this.#gathering.stop();
  }
}
