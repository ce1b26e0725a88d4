import { RecentlyUsed } from '../domain/recently-used.ts';
import { MAX_MINTS } from './request-budget.ts';

/** Until it is tried again: a mint that is mended has its words back soon, and few tries are lost. */
const REMEMBERED_MS = 5 * 60_000;

/** What a mint did with words of late. Times in milliseconds since 1970. */
interface Known {
  refusedFromBytes: number;
  refusedAt: number;
  takenBytes: number;
  takenAt: number;
}

const NOTHING: Readonly<Known> = {
  refusedFromBytes: 0,
  refusedAt: Number.NEGATIVE_INFINITY,
  takenBytes: 0,
  takenAt: Number.NEGATIVE_INFINITY,
};

/**
 * Which words for invoices mints refuse, so that each invoice after the first costs one request and not
 * two. What is longer is refused too, and what is shorter may be taken: a payer who writes much leaves
 * others their words. Where words as long were taken of late, a refusal is for something else, such as
 * a busy moment or what one payer wrote, and is nobody else's. Pure: `now` is milliseconds since 1970.
 */
export class RefusedWords {
  readonly #mints = new RecentlyUsed<Known>(MAX_MINTS, () => ({ ...NOTHING }));

  /** Whether a mint refused these words of late, or shorter ones. */
  includes(mintUrl: string, words: string, now: number): boolean {
    const known = this.#mints.look(mintUrl);
    return (
      known !== undefined &&
      isOfLate(known.refusedAt, now) &&
      Buffer.byteLength(words) >= known.refusedFromBytes
    );
  }

  /**
   * Tells that a mint refused these words, and gave a quote without them.
   *
   * @returns whether that is news, and is remembered
   */
  add(mintUrl: string, words: string, now: number): boolean {
    const known = this.#mints.use(mintUrl);
    const bytes = Buffer.byteLength(words);
    const isBorne = isOfLate(known.takenAt, now) && bytes <= known.takenBytes;
    // While longer ones were under way, shorter ones may have been refused.
    if (isBorne || this.includes(mintUrl, words, now)) {
      return false;
    }
    known.refusedFromBytes = bytes;
    known.refusedAt = now;
    return true;
  }

  /** Tells that a mint gave a quote with these words. */
  taken(mintUrl: string, words: string, now: number): void {
    const known = this.#mints.use(mintUrl);
    const bytes = Buffer.byteLength(words);
    if (bytes >= known.takenBytes || !isOfLate(known.takenAt, now)) {
      known.takenBytes = bytes;
      known.takenAt = now;
    }
  }
}

/** A clock that was set back makes nothing last longer. */
function isOfLate(at: number, now: number): boolean {
  return Math.abs(now - at) < REMEMBERED_MS;
}
