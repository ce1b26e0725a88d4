import type { Clock } from '../domain/clock.ts';
import type { Store } from '../store/store.ts';
import {
  FULL_FOR_MS,
  type Full,
  type IssuedQuote,
  isBelieved,
  OPEN_FOR_MS,
  type OpenPlace,
  tooManyOpen,
  UNCOUNTED_PLACE,
} from './open-place.ts';

/**
 * Quotes that are remembered, of all networks together, and as many networks: some 30 MB. The network
 * that asked the longest ago is forgotten first, and that is none that floods.
 */
const MAX_REMEMBERED = 100_000;

/** What a network was given. */
interface Given {
  /** Perhaps open: none of them was known to be paid. */
  quotes: IssuedQuote[];
  /** Invoices that are being made. */
  underWay: number;
  full: Full;
  asking: Promise<void> | null;
}

/**
 * Bounds the open invoices of each payer's address. Who asked for what stays in the memory of this
 * process, and is gone with it: each process counts for itself. At the bound alone the database is
 * asked which of them were paid.
 */
export class OpenInvoicesOfPayers {
  readonly #quotes: Pick<Store['quotes'], 'findUnpaid'>;
  readonly #limit: number;
  readonly #maxRemembered: number;
  readonly #clock: Clock;
  /** The network that asked the longest ago comes first. */
  readonly #given = new Map<string, Given>();
  #remembered = 0;

  /** @param parts.limit 0: none */
  constructor(parts: { quotes: Pick<Store['quotes'], 'findUnpaid'>; limit: number; clock: Clock }) {
    this.#quotes = parts.quotes;
    this.#limit = parts.limit;
    // One network at its bound is remembered, however high that is.
    this.#maxRemembered = Math.max(MAX_REMEMBERED, parts.limit + 1);
    this.#clock = parts.clock;
  }

  /**
   * Leave to make one invoice for a payer.
   *
   * @throws Refusal where too many are open
   */
  async take(network: string): Promise<OpenPlace> {
    if (this.#limit === 0) {
      return UNCOUNTED_PLACE;
    }
    const given = this.#givenTo(network);
    while (this.#isFull(given)) {
      if (!isBelieved(given.full, this.#clock())) {
        given.asking ??= this.#forgetClosed(given).finally(() => {
          given.asking = null;
        });
        await given.asking;
      }
      if (this.#isFull(given)) {
        throw tooManyOpen(
          'Too many invoices that you asked for wait for their payment.',
          roomAtMs(given) - this.#clock(),
        );
      }
    }
    given.underWay += 1;
    return {
      settle: (issued) => {
        given.underWay -= 1;
        if (issued !== null && this.#given.get(network) === given) {
          given.quotes.push(issued);
          this.#remembered += 1;
          this.#forgetOldest();
        }
      },
    };
  }

  #givenTo(network: string): Given {
    const known = this.#given.get(network);
    const given = known ?? {
      quotes: [],
      underWay: 0,
      full: { sinceMs: 0, untilMs: 0 },
      asking: null,
    };
    this.#given.delete(network);
    this.#given.set(network, given);
    this.#remembered += known === undefined ? 1 : 0;
    this.#forgetOldest();
    return given;
  }

  #isFull(given: Given): boolean {
    return given.quotes.length + given.underWay >= this.#limit;
  }

  /** Keeps what is open; who comes meanwhile waits for the same answer. */
  async #forgetClosed(given: Given): Promise<void> {
    const nowMs = this.#clock();
    noticeSetBack(given, nowMs);
    this.#forget(given, (quote) => closesAtMs(quote) <= nowMs);
    if (this.#isFull(given)) {
      const asked = [...given.quotes];
      const unpaid = new Set(await this.#quotes.findUnpaid(asked));
      const paid = new Set(asked.filter((_quote, place) => !unpaid.has(place)));
      this.#forget(given, (quote) => paid.has(quote));
      // Of what is still under way something may come to nothing.
      const isCertain = given.quotes.length >= this.#limit;
      const untilMs = isCertain ? Math.min(nowMs + FULL_FOR_MS, roomAtMs(given)) : nowMs;
      given.full = { sinceMs: nowMs, untilMs };
    }
  }

  #forget(given: Given, isClosed: (quote: IssuedQuote) => boolean): void {
    const left = given.quotes.filter((quote) => !isClosed(quote));
    this.#remembered -= given.quotes.length - left.length;
    given.quotes = left;
  }

  #forgetOldest(): void {
    for (const [network, given] of this.#given) {
      if (this.#remembered <= this.#maxRemembered) {
        return;
      }
      this.#given.delete(network);
      this.#forget(given, () => true);
      this.#remembered -= 1;
    }
  }
}

/** Where the clock was set back, nothing was issued later than now. */
function noticeSetBack(given: Given, nowMs: number): void {
  if (given.quotes.some(({ createdAtMs }) => createdAtMs > nowMs)) {
    given.quotes = given.quotes.map((quote) => ({
      ...quote,
      createdAtMs: Math.min(quote.createdAtMs, nowMs),
    }));
  }
}

/** When the first of a network's quotes ceases to count as open; at once where it has none. */
function roomAtMs({ quotes }: Given): number {
  return quotes.length === 0 ? 0 : Math.min(...quotes.map(closesAtMs));
}

/** When a quote that is not paid ceases to count as open. */
function closesAtMs({ createdAtMs, expiresAtMs }: IssuedQuote): number {
  return Math.min(createdAtMs + OPEN_FOR_MS, expiresAtMs);
}
