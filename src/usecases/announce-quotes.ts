import type { Log } from '../log.ts';
import { encodeIssued, ISSUED_CHANNEL, type IssuedQuote } from '../notifications/quote-channel.ts';
import type { Store } from '../store/store.ts';
import { BatchWriter } from './batch-writer.ts';

/**
 * PostgreSQL commits transactions that notify one after the other, so one of them announces the quotes of
 * this time. A payer takes longer to see the invoice.
 */
const DELAY_MS = 30;

/**
 * Announces quotes that this process issued and does not watch, so that the process that watches the mint
 * subscribes to them at once. A quote whose announcement is lost is found by that process's next rescan.
 */
export class AnnounceQuotes {
  readonly #batches: BatchWriter<IssuedQuote>;

  constructor(store: Pick<Store, 'transaction'>, log: Log) {
    this.#batches = new BatchWriter({
      write: (quotes) => store.transaction((tx) => tx.notify(ISSUED_CHANNEL, encodeIssued(quotes))),
      delayMs: DELAY_MS,
      failureMessage:
        'could not announce new quotes to other processes; their rescan will find them',
      log,
    });
  }

  /** Announces a quote soon, together with others. */
  announce(quote: IssuedQuote): void {
    this.#batches.add(quote);
  }

  /** Announces what is not announced yet. */
  stop(): Promise<void> {
    return this.#batches.stop();
  }
}
