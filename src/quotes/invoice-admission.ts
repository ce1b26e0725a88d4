import { createHmac } from 'node:crypto';
import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { RequestError, rateLimitError } from '../errors.ts';
import { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import { KeyedCounter } from '../keyed-counter.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { WatchBudget } from '../mints/watch-budget.ts';
import {
  type AddressPrefixes,
  computeBound,
  computeShare,
  hasRoom,
} from '../net/address-prefixes.ts';
import { countOpenInvoices, type OpenInvoiceCounts } from './open-invoice-store.ts';

/**
 * How long an unpaid invoice counts as open: at most one hour, so that a flood of requests blocks payers no longer.
 * At least ten minutes, even if the invoice expires earlier.
 */
const OPEN_INVOICE_AGE_LIMITS_MS = { min: 10 * 60_000, max: 60 * 60_000 };

/** Payers may retry soon, because any payment reduces the number of open invoices. */
const OPEN_INVOICES_RETRY_AFTER_MS = 60_000;

const DAY_MS = 24 * 60 * 60_000;

/** Prefixes of addresses, and pairs of a recipient and a prefix. Each takes about 200 bytes. */
const MAX_COUNTED_KEYS = 131_072;

/** 32 bits for each prefix length, enough to tell the prefixes of an attack apart. */
const PREFIX_HASH_HEX_LENGTH = 8;

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
  /** Quotes within a day at mints that the operator did not name, whatever becomes of them. Counted per process. */
  maxDailyQuotesPerAddress: number;
  maxDailyQuotesPerRecipientAndAddress: number;
}

interface AdmissionRequest {
  /** The recipient's key, hex. */
  pubkey: string;
  /** Of the payer's address. */
  prefixes: AddressPrefixes;
  mintUrl: string;
}

interface InvoiceAdmissionDeps {
  db: Db;
  /** Payments at the operator's mints cost money, so they have no daily limit. */
  mintPolicy: MintPolicy;
  watchBudget: Pick<WatchBudget, 'getShare' | 'add'>;
  limits: InvoiceLimits;
  /** The key for hashing addresses is derived from this secret. */
  secret: string;
  clock: Clock;
  monotonicMs: () => number;
}

/**
 * Decides whether a payer gets an invoice. Checks the request rate of the payer's address, the number of open invoices,
 * the quotes of the last day, and the number of watched quotes.
 */
export class InvoiceAdmission {
  readonly #deps: InvoiceAdmissionDeps;
  readonly #requestLimiter: FixedWindowRateLimiter;
  readonly #dailyLimiters: Record<'perPair' | 'perAddress', FixedWindowRateLimiter>;
  readonly #inFlightRequests = new KeyedCounter();
  readonly #hashKey: Buffer;

  constructor(deps: InvoiceAdmissionDeps) {
    const { limits, secret, monotonicMs } = deps;
    const createLimiter = (limit: number, windowMs?: number) =>
      new FixedWindowRateLimiter(limit, MAX_COUNTED_KEYS, monotonicMs, windowMs);
    this.#deps = deps;
    this.#requestLimiter = createLimiter(limits.invoicesPerMinute);
    this.#dailyLimiters = {
      perPair: createLimiter(limits.maxDailyQuotesPerRecipientAndAddress, DAY_MS),
      perAddress: createLimiter(limits.maxDailyQuotesPerAddress, DAY_MS),
    };
    this.#hashKey = createHmac('sha256', secret).update('address groups').digest();
  }

  /**
   * Counts a request. Call this method before any other work for the request.
   *
   * @throws RequestError if the address sent too many requests within a minute
   */
  assertRequestRate(prefixes: AddressPrefixes): void {
    const retryAfterMs = this.#requestLimiter.consume(prefixes);
    if (retryAfterMs !== null) {
      throw rateLimitError('Too many requests for invoices from this address.', retryAfterMs);
    }
  }

  /**
   * Calls `createInvoice` if the request is within the limits.
   *
   * @param createInvoice creates and stores a quote; until it ends, the request counts as an open invoice
   * @throws RequestError if too many invoices are open or were requested within a day, or too many quotes are watched
   */
  async runIfAdmitted<Invoice>(
    request: AdmissionRequest,
    createInvoice: (addressHashes: string) => Promise<Invoice>,
  ): Promise<Invoice> {
    const { mintPolicy, watchBudget } = this.#deps;
    const { pubkey, prefixes, mintUrl } = request;
    const inFlightRequests = this.#inFlightRequests;
    const pairs = prefixes.map(({ key, factor }) => ({ key: `${pubkey} ${key}`, factor }));
    const count = ({ key }: { key: string }) => inFlightRequests.get(key);
    const inFlightCounts: OpenInvoiceCounts = {
      perRecipient: inFlightRequests.get(pubkey),
      perPair: pairs.map(count),
      perAddress: prefixes.map(count),
    };
    // Checked before the database is queried, so that a burst of requests from one address does not occupy it.
    this.#assertOpenInvoices(prefixes, inFlightCounts, 1);
    const countedKeys = [pubkey, ...[...pairs, ...prefixes].map(({ key }) => key)];
    for (const key of countedKeys) {
      inFlightRequests.increment(key);
    }
    try {
      const addressHashes = this.#hashPrefixes(prefixes);
      const isOperatorMint = mintPolicy.isOperatorMint(mintUrl);
      const mintShare = watchBudget.getShare(mintUrl);
      // The daily limits shrink at other mints, because their quotes are watched for more than a day.
      const openShare = isOperatorMint ? mintShare : 1;
      // A request that commits meanwhile counts twice, so the requests of one process never exceed a limit. The
      // requests of several processes may exceed the limit by the number of their requests in flight.
      const openCounts = await this.#countOpenInvoices(request, addressHashes, openShare);
      this.#assertOpenInvoices(prefixes, addCounts(inFlightCounts, openCounts), openShare);
      if (!isOperatorMint) {
        this.#assertDailyLimits(pairs, prefixes, mintShare);
      }
      const invoice = await createInvoice(addressHashes);
      watchBudget.add(mintUrl);
      return invoice;
    } finally {
      for (const key of countedKeys) {
        inFlightRequests.decrement(key);
      }
    }
  }

  #countOpenInvoices(
    { pubkey, prefixes }: AdmissionRequest,
    addressHashes: string,
    openShare: number,
  ): Promise<OpenInvoiceCounts> {
    const { db, limits, clock } = this.#deps;
    const maxPerPair = limits.maxOpenInvoicesPerRecipientAndAddress;
    return countOpenInvoices(
      db,
      {
        pubkey,
        // The longest first, like the prefixes.
        addressHashes: prefixes.map((_, i) =>
          addressHashes.slice(0, addressHashes.length - i * PREFIX_HASH_HEX_LENGTH),
        ),
      },
      {
        perRecipient: limits.maxOpenInvoicesPerRecipient,
        perPair: Math.max(...prefixes.map((prefix) => computeBound(prefix, maxPerPair))),
        perAddress: prefixes.map((prefix) =>
          computeBound(prefix, limits.maxOpenInvoicesPerAddress, openShare),
        ),
      },
      OPEN_INVOICE_AGE_LIMITS_MS,
      clock(),
    );
  }

  /** Counts a request, even if the mint's rate limit rejects it or the mint creates no quote. */
  #assertDailyLimits(pairs: AddressPrefixes, prefixes: AddressPrefixes, mintShare: number): void {
    const { perPair, perAddress } = this.#dailyLimiters;
    const { maxDailyQuotesPerAddress: maxPerAddress } = this.#deps.limits;
    const counts = perAddress.getCounts(prefixes);
    // At its daily limit, the payer gets the message of that limit.
    const hasUsedShare =
      hasRoom(prefixes, counts, maxPerAddress) &&
      !hasRoom(prefixes, counts, maxPerAddress, mintShare);
    if (mintShare === 0 || hasUsedShare) {
      throw mintUnavailableError(OPEN_INVOICES_RETRY_AFTER_MS);
    }
    const consume = (limiter: FixedWindowRateLimiter, keys: AddressPrefixes, message: string) => {
      const retryAfterMs = limiter.consume(keys);
      if (retryAfterMs !== null) {
        throw rateLimitError(message, retryAfterMs);
      }
    };
    // A request that the limit of the pair rejects does not count for the address.
    consume(
      perPair,
      pairs,
      'You have requested too many invoices for this recipient within a day.',
    );
    consume(perAddress, prefixes, 'You have requested too many invoices within a day.');
  }

  /** @param openShare the share that each address has of its bound while the unpaid quotes of the operator's mints fill up */
  #assertOpenInvoices(
    prefixes: AddressPrefixes,
    counts: OpenInvoiceCounts,
    openShare: number,
  ): void {
    const {
      maxOpenInvoicesPerRecipient: maxPerRecipient,
      maxOpenInvoicesPerRecipientAndAddress: maxPerPair,
      maxOpenInvoicesPerAddress: maxPerAddress,
    } = this.#deps.limits;
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
    if (openShare === 0 || !hasRoom(prefixes, perAddress, maxPerAddress, openShare)) {
      throw mintUnavailableError(OPEN_INVOICES_RETRY_AFTER_MS);
    }
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

function addCounts(one: OpenInvoiceCounts, other: OpenInvoiceCounts): OpenInvoiceCounts {
  const add = (a: readonly number[], b: readonly number[]) =>
    a.map((count, i) => count + (b[i] ?? 0));
  return {
    perRecipient: one.perRecipient + other.perRecipient,
    perPair: add(one.perPair, other.perPair),
    perAddress: add(one.perAddress, other.perAddress),
  };
}

/** @param retryAfterMs null: unknown */
export function mintUnavailableError(retryAfterMs: number | null = null): RequestError {
  return new RequestError(
    'unavailable',
    'The recipient’s mint cannot create an invoice right now. Try again later.',
    retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000)),
  );
}
