import type { Store } from '../store/store.ts';
import { KeptUntilTold, type KeptUntilToldParts } from './kept-until-told.ts';

/** Far more invoices than payers watch within {@link LIFE_MS}; some 10 MB, and at most 30. */
const MAX_KEPT = 10_000;

/** Of characters: most invoices have some 300, and a mint's may have more than we have memory for. */
const LONGEST_KEPT = 2_048;

/** A payment that was not told, typed into the database, is seen after this. */
const LIFE_MS = 60_000;

/** How an invoice stands, for who has its verify token (LUD-21). */
export interface InvoiceStanding {
  /** The BOLT 11 invoice. */
  readonly request: string;
  readonly isSettled: boolean;
}

/** An invoice's quote; see `HeldQuote.id`. */
interface Found extends InvoiceStanding {
  readonly quote: number;
}

/** Tells payers whether an invoice was paid (spec.md section 4.9). Never asks a mint. */
export class VerifyPayment {
  readonly #quotes: Pick<Store['quotes'], 'findByVerifyToken'>;
  /** By their verify tokens. */
  readonly #found: KeptUntilTold<number, Found>;

  constructor(
    quotes: Pick<Store['quotes'], 'findByVerifyToken'>,
    hearing: Pick<KeptUntilToldParts<number, Found>, 'isHearing' | 'monotonicMs'>,
  ) {
    this.#quotes = quotes;
    this.#found = new KeptUntilTold({
      ...hearing,
      subjectsOf: ({ quote }) => [quote],
      canKeep: ({ request }) => request.length <= LONGEST_KEPT,
      max: MAX_KEPT,
      lifeMs: LIFE_MS,
    });
  }

  /** How the invoice with this verify token stands; null where there is none. */
  async byToken(token: string): Promise<InvoiceStanding | null> {
    return await this.#found.get(token, () => this.#find(token));
  }

  /** Told that a quote (`HeldQuote.id`) has changed; null: any may have. */
  changed(quote: number | null): void {
    if (quote === null) {
      this.#found.forgetAll();
    } else {
      this.#found.forget(quote);
    }
  }

  async #find(token: string): Promise<Found | null> {
    const quote = await this.#quotes.findByVerifyToken(token);
    return (
      quote && {
        quote: quote.id,
        request: quote.request,
        // A payment that the mint signs for right now (INFLIGHT) is none yet (spec.md, LnurlVerifyResponse).
        isSettled: quote.state === 'PAID' || quote.state === 'ISSUED',
      }
    );
  }
}
