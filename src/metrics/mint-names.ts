/** The label of all mints that have no name of their own in the metrics. */
export const OTHER_MINTS = 'other';

/**
 * Mints of strangers that have a name at a time: each is some 30 series of a process, and a dashboard of
 * more is not read.
 */
export const MAX_NAMED_MINTS = 50;

/** A name that is not needed any more is kept for so long, so that no more than the bound are new a day. */
const KEPT_FOR_MS = 24 * 60 * 60_000;

/**
 * Which mints have a name of their own in the metrics. Strangers choose the urls of mints, and every label
 * that was ever there costs Prometheus memory: the operator's own mints always have one, of the others a
 * bounded number, first those with the most to do. Who has one keeps it for a day after it was last
 * needed. The rest are counted together.
 */
export class MintNames {
  readonly #own: ReadonlySet<string>;
  /** When each was last needed (milliseconds since 1970). */
  readonly #named = new Map<string, number>();

  /** @param own normalised urls of the mints that the operator has named */
  constructor(own: readonly string[]) {
    this.#own = new Set(own);
  }

  /** Every mint that has a name, the operator's first. */
  get all(): string[] {
    return [...this.#own, ...this.#named.keys()];
  }

  /** Whether the operator has named a mint. */
  isOwn(mintUrl: string): boolean {
    return this.#own.has(mintUrl);
  }

  /** Gives out the places that are free. @param busiest mints that a name is wanted for, the busiest first */
  name(busiest: readonly string[], nowMs: number): void {
    for (const [mintUrl, neededAtMs] of this.#named) {
      if (nowMs - neededAtMs > KEPT_FOR_MS) {
        this.#named.delete(mintUrl);
      }
    }
    for (const mintUrl of busiest) {
      const hasPlace = this.#named.has(mintUrl) || this.#named.size < MAX_NAMED_MINTS;
      if (hasPlace && !this.#own.has(mintUrl)) {
        this.#named.set(mintUrl, nowMs);
      }
    }
  }

  /** The label of a mint: its url, or {@link OTHER_MINTS}. */
  of(mintUrl: string): string {
    return this.#own.has(mintUrl) || this.#named.has(mintUrl) ? mintUrl : OTHER_MINTS;
  }
}
