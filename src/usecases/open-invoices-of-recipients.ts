import type { Clock } from '../domain/clock.ts';
import { RecentlyUsed } from '../domain/recently-used.ts';
import type { Store } from '../store/store.ts';
import {
  FULL_FOR_MS,
  type Full,
  isBelieved,
  OPEN_FOR_MS,
  type OpenPlace,
  tooManyOpen,
  UNCOUNTED_PLACE,
} from './open-place.ts';

/**
 * Of the room that the database told of, a process takes this share before it asks again: a recipient far from
 * the bound costs no query. Others do not see what it has left of that, and whoever starts has a share, so that each process
 * beyond the first, and each start, may exceed the bound by as much.
 */
const SHARE_OF_ROOM = 1 / 8;

/** Recipients that are remembered, some 10 MB; one that was forgotten has a first share again. */
const MAX_RECIPIENTS = 50_000;

/** What this process knows of a recipient. */
interface Known {
  /** So many more invoices without asking the database. */
  left: number;
  /** Invoices that are being made: the database may not have them yet. */
  underWay: number;
  /** Null where the database told of room; and when the first of the open invoices ceases to count. */
  full: (Full & { roomAtMs: number }) | null;
  asking: Promise<void> | null;
}

/**
 * Bounds the open invoices of each recipient. They are counted in the database, so the bound is one
 * for all processes; a process asks it the more often the closer a recipient comes to the bound.
 */
export class OpenInvoicesOfRecipients {
  readonly #quotes: Pick<Store['quotes'], 'countOpen'>;
  readonly #limit: number;
  readonly #clock: Clock;
  readonly #known: RecentlyUsed<Known>;

  /** @param parts.limit 0: none */
  constructor(parts: { quotes: Pick<Store['quotes'], 'countOpen'>; limit: number; clock: Clock }) {
    this.#quotes = parts.quotes;
    this.#limit = parts.limit;
    this.#clock = parts.clock;
    this.#known = new RecentlyUsed(MAX_RECIPIENTS, () => ({
      left: Math.floor(parts.limit * SHARE_OF_ROOM),
      underWay: 0,
      full: null,
      asking: null,
    }));
  }

  /**
   * Leave to make one invoice of a recipient.
   *
   * @throws Refusal where too many are open
   */
  async take(pubkey: string): Promise<OpenPlace> {
    if (this.#limit === 0) {
      return UNCOUNTED_PLACE;
    }
    const known = this.#known.use(pubkey);
    while (known.left === 0) {
      const nowMs = this.#clock();
      if (known.full === null || !isBelieved(known.full, nowMs)) {
        known.asking ??= this.#ask(pubkey, known).finally(() => {
          known.asking = null;
        });
        await known.asking;
      }
      if (known.left === 0 && known.full !== null) {
        throw tooManyOpen(
          'Too many invoices of this recipient wait for their payment.',
          known.full.roomAtMs - nowMs,
        );
      }
    }
    known.left -= 1;
    known.underWay += 1;
    return {
      settle: (issued) => {
        known.underWay -= 1;
        known.left += issued === null ? 1 : 0;
      },
    };
  }

  /** Asks the database how much room there is; who comes meanwhile waits for the same answer. */
  async #ask(pubkey: string, known: Known): Promise<void> {
    const { underWay } = known;
    const nowMs = this.#clock();
    const { count, firstClosesAtMs } = await this.#quotes.countOpen(pubkey, {
      openForMs: OPEN_FOR_MS,
      nowMs,
      limit: this.#limit,
    });
    // Whatever is still under way counts in full, also where the database has it already.
    const room = this.#limit - count - underWay;
    if (room > 0) {
      known.left += Math.max(1, Math.floor(room * SHARE_OF_ROOM));
      known.full = null;
    } else {
      const roomAtMs = firstClosesAtMs ?? nowMs;
      // Of what is still under way something may come to nothing.
      const isCertain = count >= this.#limit;
      const untilMs = isCertain ? Math.min(roomAtMs, nowMs + FULL_FOR_MS) : nowMs;
      known.full = { sinceMs: nowMs, untilMs, roomAtMs };
    }
  }
}
