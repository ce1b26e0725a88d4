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
 * How many invoices payers may request; 0: no limit. For the prefixes of an address, multiples apply
 * ({@link AddressPrefixes}). Open invoices are the unpaid ones of the last hour, counted across all processes.
 */
export interface InvoiceLimits {
  invoicesPerMinute: number;
  maxOpenInvoicesPerRecipient: number;
  maxOpenInvoicesPerAddress: number;
  maxOpenInvoicesPerRecipientAndAddress: number;
}

/** 32 bits for each prefix, enough to tell the prefixes of an attack apart. */
const HASH_HEX_LENGTH = 8;

/** Checks the requests of a payer's address, the open invoices, and the quotes that are watched at the mint's site. */
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
    this.#context = context;
    this.#requestLimiter = new FixedWindowRateLimiter(
      limits.invoicesPerMinute,
      MAX_COUNTED_KEYS,
      monotonicMs,
    );
    this.#hashKey = createHmac('sha256', secret).update('address groups').digest();
  }

  /** Call it before any request to a mint. Throws RequestError if the address sent too many within a minute. */
  countRequest(prefixes: AddressPrefixes): void {
    const retryAfterMs = this.#requestLimiter.consume(prefixes);
    if (retryAfterMs !== null) {
      throw rateLimitError('Too many requests for invoices from this address.', retryAfterMs);
    }
  }

  /**
   * Returns the hashes to store with the quote. Until the result is disposed of, the request counts as an open invoice.
   * Throws RequestError if there is no room.
   */
  async admit(
    pubkey: string,
    prefixes: AddressPrefixes,
    mintUrl: string,
  ): Promise<Disposable & { addressHashes: string }> {
    const { db, watchBudget, limits, clock } = this.#context;
    const mintShare = watchBudget.getShare(mintUrl);
    const addressKeys = prefixes.map(({ key }) => key);
    const pairKeys = addressKeys.map((key) => `${pubkey} ${key}`);
    const count = (key: string) => this.#inFlight.get(key);
    const inFlight: OpenInvoiceCounts = {
      perRecipient: count(pubkey),
      perPair: pairKeys.map(count),
      perAddress: addressKeys.map(count),
    };
    // Checked before the database is queried, so that a burst of requests from one address does not occupy it.
    assertRoom(prefixes, inFlight, limits, mintShare);
    using stack = new DisposableStack();
    for (const key of [pubkey, ...pairKeys, ...addressKeys]) {
      this.#inFlight.increment(key);
      stack.defer(() => this.#inFlight.decrement(key));
    }
    const addressHashes = this.#hashPrefixes(addressKeys);
    const maxPerPair = limits.maxOpenInvoicesPerRecipientAndAddress;
    // A request that commits meanwhile counts twice, so the requests of one process never exceed a limit. The requests
    // of several processes may exceed the limit by the number of their requests in flight.
    const open = await countOpenInvoices(
      db,
      {
        pubkey,
        addressHashes: prefixes.map((_, i) =>
          addressHashes.slice(0, (prefixes.length - i) * HASH_HEX_LENGTH),
        ),
      },
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
    assertRoom(prefixes, addCounts(inFlight, open), limits, mintShare);
    watchBudget.addQuote(mintUrl);
    const inFlightCounts = stack.move();
    return { addressHashes, [Symbol.dispose]: () => inFlightCounts.dispose() };
  }

  /** The shortest prefix comes first. The hashes have a secret key, so that the database does not reveal addresses. */
  #hashPrefixes(keys: readonly string[]): string {
    const toHash = (key: string) => createHmac('sha256', this.#hashKey).update(key).digest('hex');
    return keys
      .map((key) => toHash(key).slice(0, HASH_HEX_LENGTH))
      .reverse()
      .join('');
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

/** @param mintShare the share of its bound that each address may use, as the watched quotes of the mint's site fill up */
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
