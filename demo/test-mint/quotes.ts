import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { z } from 'zod';
import { encodeInvoice } from './bolt11-encoder.ts';
import { MintRefusal } from './refusal.ts';
import type { TestMintSwitches } from './switches.ts';

/** A mint quote as this mint keeps it (NUT-04, NUT-23). */
export interface TestMintQuote {
  readonly id: string;
  /** The BOLT 11 invoice. */
  readonly request: string;
  readonly amountSat: number;
  /** The lock (NUT-20), 33 bytes in hex; null: not locked. */
  readonly pubkey: string | null;
  /** Unix seconds. */
  readonly expiresAt: number;
  readonly state: 'UNPAID' | 'PAID' | 'PENDING' | 'ISSUED';
  /** Unix seconds of the last change of state. */
  readonly updatedAt: number;
}

/** The body of `POST /v1/mint/quote/bolt11` (NUT-23). */
export const QUOTE_ORDER = z.object({
  amount: z.int(),
  unit: z.literal('sat'),
  description: z.string().nullish(),
  description_hash: z.hash('sha256').nullish(),
  pubkey: z.string().nullish(),
});

type QuoteOrder = z.infer<typeof QUOTE_ORDER>;
type QuoteListener = (quote: TestMintQuote) => void;

/** All quotes of the mint; the only place where one changes its state. */
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

  /** Calls the listener after every change of state, but not after a creation. */
  onChange(listener: QuoteListener): void {
    this.#listeners.push(listener);
  }

  /** Creates a quote and its invoice, or throws a refusal. */
  create(order: QuoteOrder): TestMintQuote {
    const switches = this.#switches;
    refuseOrder(order, switches);
    const createdAt = this.#nowSeconds();
    const hash = switches.descriptionHash ? order.description_hash : null;
    const isLocked = switches.locking && switches.echoPubkey;
    const request = encodeInvoice({
      amountMsat: (switches.wrongInvoiceAmountSat ?? order.amount) * 1000,
      createdAt,
      expirySeconds: switches.expirySeconds,
      paymentHash: randomBytes(32),
      description: order.description ?? '',
      ...(hash && { descriptionHash: Buffer.from(hash, 'hex') }),
    });
    const quote: TestMintQuote = {
      id:
        switches.quoteIdStyle === 'uuidv7' ? randomUUIDv7() : randomBytes(30).toString('base64url'),
      request,
      amountSat: order.amount,
      pubkey: (isLocked && order.pubkey) || null,
      expiresAt: createdAt + switches.expirySeconds,
      state: 'UNPAID',
      updatedAt: createdAt,
    };
    this.#byId.set(quote.id, quote);
    this.#idByRequest.set(request, quote.id);
    return quote;
  }

  /** Returns the quote as it is now, or throws a refusal. */
  get(id: string): TestMintQuote {
    const quote = this.#byId.get(id);
    if (quote === undefined) {
      throw new MintRefusal(0, 'quote not found', { cdk: [50000, 'Unknown quote'] });
    }
    return quote;
  }

  findByRequest(request: string): TestMintQuote | undefined {
    return this.#byId.get(this.#idByRequest.get(request) ?? '');
  }

  /** Changes the state of a quote and notifies the listeners. */
  setState(id: string, state: TestMintQuote['state']): void {
    const quote = { ...this.get(id), state, updatedAt: this.#nowSeconds() };
    this.#byId.set(id, quote);
    for (const listener of this.#listeners) {
      listener(quote);
    }
  }

  /** Forgets the quotes that expired before a time (Unix seconds). All of them are valid for the same time. */
  forgetExpired(before: number): void {
    for (const { id, request, expiresAt } of this.#byId.values()) {
      if (expiresAt >= before) {
        return;
      }
      this.#byId.delete(id);
      this.#idByRequest.delete(request);
    }
  }

  #nowSeconds(): number {
    return Math.floor(this.#now() / 1000);
  }
}

/** Refuses what this mint, as its switches are, does not offer. */
function refuseOrder(order: QuoteOrder, switches: TestMintSwitches): void {
  const { minAmountSat, maxAmountSat } = switches;
  const minimum = Math.max(1, minAmountSat ?? 1);
  const maximum = maxAmountSat ?? Number.MAX_SAFE_INTEGER;
  if (order.amount < minimum || order.amount > maximum) {
    throw new MintRefusal(11006, 'Amount outside of limit range');
  }
  if (switches.mintDisabled) {
    throw new MintRefusal(20003, 'Minting is disabled');
  }
  if (order.description && !switches.description) {
    throw new MintRefusal(0, 'Backend does not support descriptions.');
  }
}
