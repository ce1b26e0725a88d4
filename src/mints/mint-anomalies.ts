import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';

export type MintAnomaly = 'amount_or_invoice_mismatch' | 'state_regression';

/** Logs the first anomaly of each mint and kind, and again whenever their count has doubled. */
export class MintAnomalyCounter {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #counts = new LRUCache<string, number>({ max: 2_000 });

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  count(mintUrl: string, anomaly: MintAnomaly): void {
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
