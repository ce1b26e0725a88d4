import type { Log } from '../log.ts';
import { encodeIssued, ISSUED_CHANNEL, type IssuedQuote } from './quote-channel.ts';
import type { Store } from '../store.ts';
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
export function quoteAnnouncer(
  store: Pick<Store, 'transaction'>,
  log: Log,
): BatchWriter<IssuedQuote> {
  return new BatchWriter({
    write: (quotes) => store.transaction((tx) => tx.notify(ISSUED_CHANNEL, encodeIssued(quotes))),
    delayMs: DELAY_MS,
    failureMessage: 'could not announce new quotes to other processes; their rescan will find them',
    log,
  });
}
