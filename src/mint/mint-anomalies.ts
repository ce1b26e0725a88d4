import type { Logger } from 'pino';
import { RecentlyUsed } from '../domain/recently-used.ts';

/** Something a mint did that is ignored. */
export type MintAnomaly =
  /** It answered for a quote with another amount or invoice. */
  | 'another_amount_or_invoice'
  /** It took back what it had reported about a quote. */
  | 'backwards'
  /** It reported on a quote that it was not asked about. */
  | 'unasked'
  /** Its WebSocket was open and did not report what a poll then found. */
  | 'socket_silent'
  /** Its WebSocket sent far more messages than there can be news. */
  | 'socket_flooding';

/** Beyond this many mints the one used the longest ago is forgotten: users can name any number. */
const MAX_MINTS = 1_000;

/** Counts the anomalies of each mint, and logs a count each time that it doubles. */
export class MintAnomalies {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #mints = new RecentlyUsed(MAX_MINTS, () => new Map<MintAnomaly, number>());

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  /** Counts an anomaly. */
  report(mintUrl: string, anomaly: MintAnomaly, times = 1): void {
    const counts = this.#mints.use(mintUrl);
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
