import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';

export type MintAnomaly =
  /** The mint reported another amount or invoice for a quote. */
  | 'amount_or_invoice_mismatch'
  /** The mint reported an earlier state of a quote. */
  | 'state_regression'
  /** The mint sent a notification about a quote that is not subscribed. */
  | 'unsolicited_notification';

/** One count per mint and anomaly. Users could otherwise fill the memory by naming mints. */
const MAX_COUNTS = 2_000;

/** Counts the anomalies of each mint. Logs the first one, and again whenever the count has doubled. */
export class MintAnomalyCounter {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #counts = new LRUCache<string, number>({ max: MAX_COUNTS });

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  report(mintUrl: string, anomaly: MintAnomaly): void {
    const key = `${anomaly} ${mintUrl}`;
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    if (Number.isInteger(Math.log2(count))) {
      this.#log.warn(
        { event: 'mint_anomaly', mintUrl, anomaly, count },
        'ignored invalid data from a mint',
      );
    }
  }
}
