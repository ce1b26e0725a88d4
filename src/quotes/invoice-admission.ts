import { createHmac } from 'node:crypto';
import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { RequestError, rateLimitError } from '../errors.ts';
import { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import { KeyedCounter } from '../keyed-counter.ts';
import type { WatchBudget } from '../mints/watch-budget.ts';
import {
  type AddressPrefixes,
  computeBound,
  computeShare,
  hasRoom,
} from '../net/address-prefixes.ts';
import {
  MAX_COUNTED_KEYS,
  OPEN_INVOICE_AGE_LIMITS_MS,
  OPEN_INVOICES_RETRY_AFTER_MS,
} from './limits.ts';
import { countOpenInvoices, type OpenInvoiceCounts } from './open-invoice-store.ts';

/**
 * How many invoices payers may request; 0: no limit. A limit per address is multiplied for each of its prefixes
 * ({@link AddressPrefixes}). Open invoices are the unpaid ones of the last hour, counted across all processes.
 */
export interface InvoiceLimits {
  invoicesPerMinute: number;
  maxOpenInvoicesPerRecipient: number;
  maxOpenInvoicesPerAddress: number;
  maxOpenInvoicesPerRecipientAndAddress: number;
}

/** Of each prefix, 32 bits are stored. Two prefixes of an attack rarely have the same ones. */
const HASH_HEX_LENGTH = 8;

/** Decides whether an invoice may be issued, by its payer's request rate, the open invoices, and the mint's watch budget. */
export class InvoiceAdmission {
  readonly #context;
  readonly #requestLimiter: FixedWindowRateLimiter;
  readonly #inFlight = new KeyedCounter();
  readonly #hashKey: Buffer;

  constructor(context: {
    db: Db;
    watchBudget: WatchBudget;
    limits: InvoiceLimits;
    secret: string;
    clock: Clock;
    monotonicMs: () => number;
  }) {
    const { limits, secret, monotonicMs } = context;
    const { invoicesPerMinute: max } = limits;
    this.#context = context;
    this.#requestLimiter = new FixedWindowRateLimiter(max, MAX_COUNTED_KEYS, monotonicMs);
    this.#hashKey = createHmac('sha256', secret).update('address groups').digest();
  }

  /** Call it before any request to a mint. Throws RequestError if the address sent too many within a minute. */
  admitRequest(prefixes: AddressPrefixes): void {
    const retryAfterMs = this.#requestLimiter.consume(prefixes);
    if (retryAfterMs !== null) {
      throw rateLimitError('Too many requests for invoices from your IP address.', retryAfterMs);
    }
  }

  /**
   * Returns the hashes of the payer's address, joined, to store with the quote. The request counts as an open invoice
   * until the caller disposes of the result. Throws RequestError if there are too many open invoices or watched quotes.
   */
  async admitInvoice(
    pubkey: string,
    prefixes: AddressPrefixes,
    mintUrl: string,
  ): Promise<Disposable & { addressHashes: string }> {
    const { db, watchBudget, limits, clock } = this.#context;
    const mintShare = watchBudget.getShare(mintUrl);
    const addressKeys = prefixes.map(({ key }) => key);
    const pairKeys = addressKeys.map((key) => `${pubkey} ${key}`);
    const countInFlight = (key: string) => this.#inFlight.get(key);
    const inFlightCounts: OpenInvoiceCounts = {
      perRecipient: countInFlight(pubkey),
      perPair: pairKeys.map(countInFlight),
      perAddress: addressKeys.map(countInFlight),
    };
    // Checked before the database is queried, so that a burst of requests from one address does not occupy it.
    assertRoom(prefixes, inFlightCounts, limits, mintShare);
    // Removes this request from the counts: at the end of this method if it throws, otherwise when the caller does so.
    using removal = new DisposableStack();
    for (const key of [pubkey, ...pairKeys, ...addressKeys]) {
      this.#inFlight.increment(key);
      removal.defer(() => this.#inFlight.decrement(key));
    }
    const addressHashes = this.#hashPrefixes(addressKeys);
    // `addressHashes` ends with the longest prefix. Without its end, it belongs to a shorter prefix.
    const hashesByPrefix = prefixes.map((_, i) =>
      addressHashes.slice(0, (prefixes.length - i) * HASH_HEX_LENGTH),
    );
    const maxPerPair = limits.maxOpenInvoicesPerRecipientAndAddress;
    // A request whose quote is committed meanwhile counts twice, so one process never exceeds a limit. Several processes
    // together may exceed it by the number of their requests in flight.
    const storedCounts = await countOpenInvoices(
      db,
      { pubkey, addressHashes: hashesByPrefix },
      {
        perRecipient: limits.maxOpenInvoicesPerRecipient,
        perPair: Math.max(...prefixes.map((prefix) => computeBound(prefix, maxPerPair))),
        perAddress: prefixes.map((prefix) =>
          computeBound(prefix, limits.maxOpenInvoicesPerAddress, mintShare),
        ),
      },
      OPEN_INVOICE_AGE_LIMITS_MS,
      clock(),
    );
    assertRoom(prefixes, addCounts(inFlightCounts, storedCounts), limits, mintShare);
    watchBudget.addQuote(mintUrl);
    const removalByCaller = removal.move();
    return { addressHashes, [Symbol.dispose]: () => removalByCaller.dispose() };
  }

  /** Joins the hashes, that of the shortest prefix first. Their key is secret, so the database does not reveal addresses. */
  #hashPrefixes(keys: readonly string[]): string {
    const toHash = (key: string) => createHmac('sha256', this.#hashKey).update(key).digest('hex');
    const hashes = keys.map((key) => toHash(key).slice(0, HASH_HEX_LENGTH));
    return hashes.reverse().join('');
  }
}

function addCounts(one: OpenInvoiceCounts, other: OpenInvoiceCounts): OpenInvoiceCounts {
  const add = (a: readonly number[], b: readonly number[]) =>
    a.map((count, i) => count + (b[i] ?? 0));
  return {
    perRecipient: one.perRecipient + other.perRecipient,
    perPair: add(one.perPair, other.perPair),
    perAddress: add(one.perAddress, other.perAddress),
  };
}

/** @param mintShare which part of its limit an address may use: less and less while the mint's watch budget runs out */
function assertRoom(
  prefixes: AddressPrefixes,
  { perRecipient, perPair, perAddress }: OpenInvoiceCounts,
  limits: InvoiceLimits,
  mintShare: number,
): void {
  const maxPerPair = limits.maxOpenInvoicesPerRecipientAndAddress;
  const maxPerAddress = limits.maxOpenInvoicesPerAddress;
  const recipientShare = computeShare(perRecipient, limits.maxOpenInvoicesPerRecipient);
  const refuse = (message: string) => rateLimitError(message, OPEN_INVOICES_RETRY_AFTER_MS);
  if (!hasRoom(prefixes, perPair, maxPerPair)) {
    throw refuse('You have too many unpaid invoices for this recipient.');
  }
  if (!hasRoom(prefixes, perAddress, maxPerAddress)) {
    throw refuse('You have too many unpaid invoices.');
  }
  if (recipientShare === 0 || !hasRoom(prefixes, perPair, maxPerPair, recipientShare)) {
    throw refuse('This recipient has too many unpaid invoices.');
  }
  if (mintShare === 0 || !hasRoom(prefixes, perAddress, maxPerAddress, mintShare)) {
    throw mintUnavailableError(OPEN_INVOICES_RETRY_AFTER_MS);
  }
}

export function mintUnavailableError(retryAfterMs: number | null = null): RequestError {
  return new RequestError(
    'unavailable',
    'The recipient’s mint cannot create an invoice right now. Try again later.',
    retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000)),
  );
}
