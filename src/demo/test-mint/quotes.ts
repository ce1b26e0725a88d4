import { createHash, randomBytes, randomUUIDv7 } from 'node:crypto';
import { encodeInvoice } from './bolt11-encoder.ts';
import { MintRefusal } from './refusal.ts';
import type { TestMintSwitches } from './switches.ts';

/** A mint quote as this mint keeps it (NUT-04, NUT-23). */
export interface TestMintQuote {
  readonly id: string;
  /** The BOLT 11 invoice. */
  readonly request: string;
  readonly amountSat: number;
  /** The lock (NUT-20), 33 bytes in hex; null: whoever knows the id can mint. */
  readonly pubkey: string | null;
  /** Unix seconds, of the invoice. */
  readonly expiresAt: number;
  readonly state: 'UNPAID' | 'PAID' | 'PENDING' | 'ISSUED';
  /** Unix seconds of the last change of state. */
  readonly updatedAt: number;
}

/** What a quote is to be. */
export interface QuoteOrder {
  amountSat: number;
  pubkey: string | null;
  description: string;
  /** 32 bytes, in place of the description; null where it is the description. */
  descriptionHash: Uint8Array | null;
}

type QuoteListener = (quote: TestMintQuote) => void;

/** All quotes of the mint; the only place where one changes its state. */
export class TestMintQuotes {
  readonly #switches: TestMintSwitches;
  readonly #now: () => number;
  readonly #byId = new Map<string, TestMintQuote>();
  readonly #idByRequest = new Map<string, string>();
  readonly #listeners = new Set<QuoteListener>();
  /** Who signs the invoices: the key of a Lightning node that does not exist. */
  readonly #nodeSecretKey = randomBytes(32);

  /** @param now milliseconds since 1970 */
  constructor(switches: TestMintSwitches, now: () => number) {
    this.#switches = switches;
    this.#now = now;
  }

  get byId(): ReadonlyMap<string, TestMintQuote> {
    return this.#byId;
  }

  /** Hears of every change of state after creation. */
  onChange(listener: QuoteListener): void {
    this.#listeners.add(listener);
  }

  /** Makes a quote and its invoice. */
  create({ amountSat, pubkey, description, descriptionHash }: QuoteOrder): TestMintQuote {
    const { wrongInvoiceAmountSat, expirySeconds, quoteIdStyle } = this.#switches;
    const createdAt = this.#nowSeconds();
    const preimage = randomBytes(32);
    const request = encodeInvoice(
      {
        amountMsat: (wrongInvoiceAmountSat ?? amountSat) * 1000,
        createdAt,
        expirySeconds,
        paymentHash: createHash('sha256').update(preimage).digest(),
        paymentSecret: randomBytes(32),
        description,
        ...(descriptionHash !== null && { descriptionHash }),
      },
      this.#nodeSecretKey,
    );
    const id = quoteIdStyle === 'uuidv7' ? randomUUIDv7() : randomBytes(30).toString('base64url');
    const quote: TestMintQuote = {
      id,
      request,
      amountSat,
      pubkey,
      expiresAt: createdAt + expirySeconds,
      state: 'UNPAID',
      updatedAt: createdAt,
    };
    this.#byId.set(id, quote);
    this.#idByRequest.set(request, id);
    return quote;
  }

  /** The quote as it is now; refuses where there is none. */
  get(id: string): TestMintQuote {
    const quote = this.#byId.get(id);
    if (quote === undefined) {
      throw new MintRefusal({ kind: 'unknown_quote' });
    }
    return quote;
  }

  /** The quote whose invoice this is. */
  findByRequest(request: string): TestMintQuote | undefined {
    const id = this.#idByRequest.get(request);
    return id === undefined ? undefined : this.#byId.get(id);
  }

  /** Moves a quote on and tells the listeners. */
  setState(id: string, state: TestMintQuote['state']): void {
    const quote = { ...this.get(id), state, updatedAt: this.#nowSeconds() };
    this.#byId.set(id, quote);
    for (const listener of this.#listeners) {
      listener(quote);
    }
  }

  #nowSeconds(): number {
    return Math.floor(this.#now() / 1000);
  }
}
