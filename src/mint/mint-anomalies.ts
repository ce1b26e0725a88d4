import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';

/** Something that a mint did and that is ignored. */
export type MintAnomaly =
  /** It reported another amount or invoice for a quote. */
  | 'another_amount_or_invoice'
  /** It took back what it had reported about a quote. */
  | 'backwards'
  /** Its WebSocket reported on a quote that is not subscribed. */
  | 'unasked'
  /** Its WebSocket was open and did not report what a poll then found. */
  | 'socket_silent'
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

  report(mintUrl: string, anomaly: MintAnomaly, times = 1): void {
    const counts = this.#mints.get(mintUrl) ?? new Map<MintAnomaly, number>();
    this.#mints.set(mintUrl, counts);
    const before = counts.get(anomaly) ?? 0;
    const count = before + times;
    counts.set(anomaly, count);
    if (Math.floor(Math.log2(count)) > Math.floor(Math.log2(before))) {
      this.#log.warn(
        { event: 'mint_anomaly', mintUrl, anomaly, count },
        'mint sent something that cannot be right; ignored it',
      );
    }
  }
}
