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
  PREFIX_HASH_HEX_LENGTH,
} from './limits.ts';
import { countOpenInvoices, type OpenInvoiceCounts } from './open-invoice-store.ts';

/**
 * How many invoices payers may request; 0: no limit. For the prefixes of an address, multiples apply
 * ({@link AddressPrefixes}). Open invoices are the unpaid invoices of the last hour, counted across all processes.
 */
export interface InvoiceLimits {
  /** Per address. */
  invoicesPerMinute: number;
  maxOpenInvoicesPerRecipient: number;
  maxOpenInvoicesPerAddress: number;
  maxOpenInvoicesPerRecipientAndAddress: number;
}

interface AdmissionRequest {
  /** The recipient's key, hex. */
  pubkey: string;
  /** Of the payer's address. */
  prefixes: AddressPrefixes;
  mintUrl: string;
}

/** Until it is disposed of, the request counts as an open invoice. */
interface AdmittedRequest extends Disposable {
  /** To store with the quote. */
  addressHashes: string;
}

interface InvoiceAdmissionContext {
  db: Db;
  watchBudget: WatchBudget;
  limits: InvoiceLimits;
  /** The key for hashing addresses is derived from this secret. */
  secret: string;
  clock: Clock;
  monotonicMs: () => number;
}

/**
 * Decides whether a payer gets an invoice, by three checks: the requests of the payer's address, the open invoices of
 * the recipient, of the address and of both together, and the quotes that are watched at the mint's site.
 */
export class InvoiceAdmission {
  readonly #context: InvoiceAdmissionContext;
  readonly #requestLimiter: FixedWindowRateLimiter;
  readonly #inFlight = new KeyedCounter();
  readonly #hashKey: Buffer;

  constructor(context: InvoiceAdmissionContext) {
    const { limits, secret, monotonicMs } = context;
    this.#context = context;
    this.#requestLimiter = new FixedWindowRateLimiter(
      limits.invoicesPerMinute,
      MAX_COUNTED_KEYS,
      monotonicMs,
    );
    this.#hashKey = createHmac('sha256', secret).update('address groups').digest();
  }

  /**
   * Counts a request. Call this method before any other work for the request.
   *
   * @throws RequestError if the address sent too many requests within a minute
   */
  countRequest(prefixes: AddressPrefixes): void {
    const retryAfterMs = this.#requestLimiter.consume(prefixes);
    if (retryAfterMs !== null) {
      throw rateLimitError('Too many requests for invoices from this address.', retryAfterMs);
    }
  }

  /** @throws RequestError if too many invoices are open, or too many quotes are watched at the mint's site */
  async admit(request: AdmissionRequest): Promise<AdmittedRequest> {
    const { watchBudget } = this.#context;
    const { pubkey, prefixes, mintUrl } = request;
    const mintShare = watchBudget.getShare(mintUrl);
    const inFlight = this.#countInFlight(request);
    // Checked before the database is queried, so that a burst of requests from one address does not occupy it.
    assertRoom(prefixes, inFlight, this.#context.limits, mintShare);
    using stack = new DisposableStack();
    for (const key of [pubkey, ...toPairKeys(request), ...prefixes.map(({ key }) => key)]) {
      this.#inFlight.increment(key);
      stack.defer(() => this.#inFlight.decrement(key));
    }
    const addressHashes = this.#hashPrefixes(prefixes);
    // A request that commits meanwhile counts twice, so the requests of one process never exceed a limit. The requests
    // of several processes may exceed the limit by the number of their requests in flight.
    const open = await this.#countOpenInvoices(request, addressHashes, mintShare);
    assertRoom(prefixes, addCounts(inFlight, open), this.#context.limits, mintShare);
    watchBudget.add(mintUrl);
    const inFlightCounts = stack.move();
    return { addressHashes, [Symbol.dispose]: () => inFlightCounts.dispose() };
  }

  #countInFlight(request: AdmissionRequest): OpenInvoiceCounts {
    const count = (key: string) => this.#inFlight.get(key);
    return {
      perRecipient: count(request.pubkey),
      perPair: toPairKeys(request).map(count),
      perAddress: request.prefixes.map(({ key }) => count(key)),
    };
  }

  #countOpenInvoices(
    { pubkey, prefixes }: AdmissionRequest,
    addressHashes: string,
    mintShare: number,
  ): Promise<OpenInvoiceCounts> {
    const { db, limits, clock } = this.#context;
    const maxPerPair = limits.maxOpenInvoicesPerRecipientAndAddress;
    const payer = {
      pubkey,
      // The longest first, like the prefixes.
      addressHashes: prefixes.map((_, i) =>
        addressHashes.slice(0, addressHashes.length - i * PREFIX_HASH_HEX_LENGTH),
      ),
    };
    const bounds = {
      perRecipient: limits.maxOpenInvoicesPerRecipient,
      perPair: Math.max(...prefixes.map((prefix) => computeBound(prefix, maxPerPair))),
      perAddress: prefixes.map((prefix) =>
        computeBound(prefix, limits.maxOpenInvoicesPerAddress, mintShare),
      ),
    };
    return countOpenInvoices(db, payer, bounds, OPEN_INVOICE_AGE_LIMITS_MS, clock());
  }

  /**
   * Returns the hashes of the prefixes, the shortest first, so that all addresses of a prefix have the same beginning.
   * The hashes have a secret key, so that the database does not reveal addresses.
   */
  #hashPrefixes(prefixes: AddressPrefixes): string {
    const hashes = prefixes.map(({ key }) =>
      createHmac('sha256', this.#hashKey)
        .update(key)
        .digest('hex')
        .slice(0, PREFIX_HASH_HEX_LENGTH),
    );
    return hashes.reverse().join('');
  }
}

function toPairKeys({ pubkey, prefixes }: AdmissionRequest): string[] {
  return prefixes.map(({ key }) => `${pubkey} ${key}`);
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

/**
 * @param mintShare the share of its bound that each address may use, which shrinks as the watched quotes of the mint's
 *   site fill up
 */
function assertRoom(
  prefixes: AddressPrefixes,
  counts: OpenInvoiceCounts,
  limits: InvoiceLimits,
  mintShare: number,
): void {
  const {
    maxOpenInvoicesPerRecipient: maxPerRecipient,
    maxOpenInvoicesPerRecipientAndAddress: maxPerPair,
    maxOpenInvoicesPerAddress: maxPerAddress,
  } = limits;
  const { perRecipient, perPair, perAddress } = counts;
  const recipientShare = computeShare(perRecipient, maxPerRecipient);
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

/** @param retryAfterMs null: unknown */
export function mintUnavailableError(retryAfterMs: number | null = null): RequestError {
  return new RequestError(
    'unavailable',
    'The recipient’s mint cannot create an invoice right now. Try again later.',
    retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000)),
  );
}
