import type { Logger } from 'pino';

/** What a mint can do that is not believed, or not borne with. */
export type Misconduct =
  /** It answered for a quote with another amount or invoice. */
  | 'another_amount_or_invoice'
  /** It took back what it had said of a quote. */
  | 'backwards'
  /** It spoke of a quote that it was not asked about. */
  | 'unasked'
  /** Its socket was open and did not tell what a poll then brought. */
  | 'socket_silent'
  /** Its socket said far more than there can be to say. */
  | 'socket_flooding';

/** Beyond this many mints the one longest known is forgotten: strangers can name any number. */
const MAX_MINTS = 1_000;

/** Counts what each mint did wrong. It is logged each time that a count doubles, so never in a flood. */
export class MintConduct {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #mints = new Map<string, Map<Misconduct, number>>();

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  /** Counts misconduct of a mint. */
  report(mintUrl: string, kind: Misconduct, times = 1): void {
    const counts = this.#countsOf(mintUrl);
    const before = counts.get(kind) ?? 0;
    const count = before + times;
    counts.set(kind, count);
    if (Math.floor(Math.log2(count)) > Math.floor(Math.log2(before))) {
      this.#log.warn({ mintUrl, misconduct: kind, count }, 'a mint misbehaved; that was ignored');
    }
  }

  #countsOf(mintUrl: string): Map<Misconduct, number> {
    const known = this.#mints.get(mintUrl);
    if (known !== undefined) {
      return known;
    }
    const [oldest] = this.#mints.keys();
    if (this.#mints.size >= MAX_MINTS && oldest !== undefined) {
      this.#mints.delete(oldest);
    }
    const counts = new Map<Misconduct, number>();
    this.#mints.set(mintUrl, counts);
    return counts;
  }
}
