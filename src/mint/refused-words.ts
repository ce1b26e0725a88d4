import { RecentlyUsed } from '../domain/recently-used.ts';
import { MAX_MINTS } from './request-budget.ts';

/** Until it is tried again: a mint that is mended has its words back soon, and few tries are lost. */
const REMEMBERED_MS = 5 * 60_000;

/** What a mint refused of late. */
interface Refused {
  fromBytes: number;
  /** Milliseconds since 1970. */
  at: number;
}

/**
 * Which words for invoices mints refuse, so that each invoice after the first costs one request and not
 * two. What is longer is refused too, and what is shorter may be taken: a payer who writes much leaves
 * others their words. Pure: `now` is milliseconds since 1970.
 */
export class RefusedWords {
  readonly #mints = new RecentlyUsed<Refused>(MAX_MINTS, () => ({ fromBytes: 0, at: 0 }));

  /** Whether a mint refused these words of late, or shorter ones. */
  includes(mintUrl: string, words: string, now: number): boolean {
    const refused = this.#mints.look(mintUrl);
    return (
      refused !== undefined &&
      // A clock that was set back makes nothing last longer.
      Math.abs(now - refused.at) < REMEMBERED_MS &&
      Buffer.byteLength(words) >= refused.fromBytes
    );
  }

  /** Tells that a mint refused these words, and gave a quote without them. */
  add(mintUrl: string, words: string, now: number): void {
    // While longer ones were under way, shorter ones may have been refused.
    if (!this.includes(mintUrl, words, now)) {
      Object.assign(this.#mints.use(mintUrl), { fromBytes: Buffer.byteLength(words), at: now });
    }
  }
}
