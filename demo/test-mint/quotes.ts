import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { z } from 'zod';
import { encodeInvoice } from './bolt11-encoder.ts';
import { MintRejection } from './mint-rejection.ts';
import type { TestMintSwitches } from './switches.ts';

/** A mint quote (NUT-04, NUT-23). */
export interface TestMintQuote {
  readonly id: string;
  /** The BOLT 11 invoice. */
  readonly request: string;
  readonly amountSat: number;
  /** The public key that locks the quote (NUT-20), 33 bytes in hex. Null: not locked. */
  readonly pubkey: string | null;
  /** Unix seconds. */
  readonly expiresAt: number;
  readonly state: 'UNPAID' | 'PAID' | 'PENDING' | 'ISSUED';
  /** Time of the last state change, in Unix seconds. */
  readonly updatedAt: number;
}

/** The body of `POST /v1/mint/quote/bolt11` (NUT-23). */
export const QUOTE_REQUEST_SCHEMA = z.object({
  amount: z.int(),
  unit: z.literal('sat'),
  description: z.string().nullish(),
  description_hash: z.hash('sha256').nullish(),
  pubkey: z.string().nullish(),
});

type QuoteRequest = z.infer<typeof QUOTE_REQUEST_SCHEMA>;
type QuoteListener = (quote: TestMintQuote) => void;

/** Stores the mint's quotes, and notifies listeners of their state changes. */
export class TestMintQuotes {
  readonly #switches: TestMintSwitches;
  readonly #now: () => number;
  readonly #byId = new Map<string, TestMintQuote>();
  readonly #idByRequest = new Map<string, string>();
  readonly #listeners: QuoteListener[] = [];

  /** @param now milliseconds since 1970 */
  constructor(switches: TestMintSwitches, now: () => number) {
    this.#switches = switches;
    this.#now = now;
  }

  get byId(): ReadonlyMap<string, TestMintQuote> {
    return this.#byId;
  }

  /** Calls the listener after every state change, but not after creation. */
  onStateChange(listener: QuoteListener): void {
    this.#listeners.push(listener);
  }

  /** Creates a quote and its invoice. @throws MintRejection */
  create(quoteRequest: QuoteRequest): TestMintQuote {
    const switches = this.#switches;
    assertRequestSupported(quoteRequest, switches);
    const createdAt = this.#nowSeconds();
    const descriptionHash = switches.supportsDescriptionHash ? quoteRequest.description_hash : null;
    const canLock = switches.supportsLocking && switches.shouldEchoPubkey;
    const request = encodeInvoice({
      amountMsat: (switches.invoiceAmountOverrideSat ?? quoteRequest.amount) * 1000,
      createdAt,
      expirySeconds: switches.expirySeconds,
      paymentHash: randomBytes(32),
      description: quoteRequest.description ?? '',
      ...(descriptionHash && { descriptionHash: Buffer.from(descriptionHash, 'hex') }),
    });
    const quote: TestMintQuote = {
      id:
        switches.quoteIdStyle === 'uuidv7' ? randomUUIDv7() : randomBytes(30).toString('base64url'),
      request,
      amountSat: quoteRequest.amount,
      pubkey: (canLock && quoteRequest.pubkey) || null,
      expiresAt: createdAt + switches.expirySeconds,
      state: 'UNPAID',
      updatedAt: createdAt,
    };
    this.#byId.set(quote.id, quote);
    this.#idByRequest.set(request, quote.id);
    return quote;
  }

  /** @throws MintRejection if the quote does not exist */
  get(id: string): TestMintQuote {
    const quote = this.#byId.get(id);
    if (quote === undefined) {
      throw new MintRejection(0, 'quote not found', { cdk: [50000, 'Unknown quote'] });
    }
    return quote;
  }

  findByRequest(request: string): TestMintQuote | undefined {
    return this.#byId.get(this.#idByRequest.get(request) ?? '');
  }

  setState(id: string, state: TestMintQuote['state']): void {
    const quote = { ...this.get(id), state, updatedAt: this.#nowSeconds() };
    this.#byId.set(id, quote);
    for (const listener of this.#listeners) {
      listener(quote);
    }
  }

  /** Deletes the quotes that expired before a time. Assumes that quotes expire in the order of their creation. */
  deleteExpired(beforeUnixSeconds: number): void {
    for (const { id, expiresAt } of this.#byId.values()) {
      if (expiresAt >= beforeUnixSeconds) {
        return;
      }
      this.delete(id);
    }
  }

  delete(id: string): void {
    this.#idByRequest.delete(this.get(id).request);
    this.#byId.delete(id);
  }

  #nowSeconds(): number {
    return Math.floor(this.#now() / 1000);
  }
}

function assertRequestSupported(quoteRequest: QuoteRequest, switches: TestMintSwitches): void {
  const { minAmountSat, maxAmountSat } = switches;
  const minimum = Math.max(1, minAmountSat ?? 1);
  const maximum = maxAmountSat ?? Number.MAX_SAFE_INTEGER;
  if (quoteRequest.amount < minimum || quoteRequest.amount > maximum) {
    throw new MintRejection(11006, 'Amount outside of limit range');
  }
  if (switches.isMintingDisabled) {
    throw new MintRejection(20003, 'Minting is disabled');
  }
  if (quoteRequest.description && !switches.supportsDescription) {
    throw new MintRejection(0, 'Backend does not support descriptions.');
  }
}
