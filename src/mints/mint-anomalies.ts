import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';

export type MintAnomaly =
  /** It reported another amount or invoice for a quote. */
  | 'another_amount_or_invoice'
  /** It took back what it had reported about a quote. */
  | 'backwards'
  /** Its WebSocket reported on a quote that is not subscribed. */
  | 'unasked'
  /** Its WebSocket sent far more messages than there can be news. */
  | 'socket_flooding';

/** Far more mints than are in use at a time. Users can name any number. */
const MAX_MINTS = 1_000;

/** Counts the anomalies of each mint, and logs a count each time that it doubles. */
export class MintAnomalies {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #mints = new LRUCache<string, Map<MintAnomaly, number>>({ max: MAX_MINTS });

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  report(mintUrl: string, anomaly: MintAnomaly): void {
    const counts = this.#mints.get(mintUrl) ?? new Map<MintAnomaly, number>();
    this.#mints.set(mintUrl, counts);
    const count = (counts.get(anomaly) ?? 0) + 1;
    counts.set(anomaly, count);
    if (Number.isInteger(Math.log2(count))) {
      this.#log.warn(
        { event: 'mint_anomaly', mintUrl, anomaly, count },
        'mint sent something that cannot be right; ignored it',
      );
    }
  }
}
