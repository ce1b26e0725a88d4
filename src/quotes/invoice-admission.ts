import { createHmac } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { RequestError, rateLimitError } from '../errors.ts';
import { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import { KeyedCounter } from '../keyed-counter.ts';
import type { MintPermit, MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { WatchBudget } from '../mints/watch-budget.ts';
import type { Store } from '../store.ts';
import type { OpenInvoiceCounts } from './quote-store.ts';

/**
 * How long an unpaid invoice counts as open: at most one hour, so that a flood of requests blocks payers no longer.
 * At least ten minutes, even if the invoice expires earlier.
 */
const OPEN_INVOICE_AGE_LIMITS_MS = { min: 10 * 60_000, max: 60 * 60_000 };

/** Payers may retry soon, because any payment reduces the number of open invoices. */
const OPEN_INVOICES_RETRY_AFTER_MS = 60_000;

const DAY_MS = 24 * 60 * 60_000;

/** Twice the address groups of an IPv6 /48, so that the owner of a /48 cannot evict counts, not even its own. */
const MAX_COUNTED_ADDRESS_GROUPS = 2 * 65_536;

/** Takes 20 MB. An attacker who evicts counts is still bound by the limit of each address. */
const MAX_COUNTED_PAIRS = 100_000;

/** 64 bits, enough to tell millions of address groups apart. */
const ADDRESS_GROUP_HASH_HEX_LENGTH = 16;

/**
 * How many invoices payers may request; 0: no limit. An address is an IPv4 address or the /64 of an IPv6 address.
 * Open invoices are the unpaid invoices of the last hour, counted across all processes.
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
  /** The payer's IPv4 address, or the /64 of an IPv6 address. */
  addressGroup: string;
  mintUrl: string;
}

interface InvoiceAdmissionDeps {
  limiter: Pick<MintRateLimiter, 'acquire'>;
  quotes: Pick<Store['quotes'], 'countOpenInvoices'>;
  /** Payments at these mints cost money, so they have no daily limit. */
  operatorMints: readonly string[];
  watchBudget: Pick<WatchBudget, 'getFreeShare' | 'add'>;
  limits: InvoiceLimits;
  /** The key for hashing address groups is derived from this secret. */
  secret: string;
  /** How long a request may wait for the mint's rate limit. */
  maxWaitMs: number;
  clock: Clock;
  monotonicMs: () => number;
}

/**
 * Decides whether a payer gets an invoice. Checks the request rate of the payer's address group, the number of open
 * invoices, the quotes of the last day, the number of watched quotes, and the mint's rate limit.
 */
export class InvoiceAdmission {
  readonly #deps: InvoiceAdmissionDeps;
  readonly #requestLimiter: FixedWindowRateLimiter;
  readonly #dailyLimiters: Record<'perPair' | 'perAddressGroup', FixedWindowRateLimiter>;
  readonly #openInvoiceLimits: OpenInvoiceCounts;
  readonly #inFlightRequests = new KeyedCounter();
  readonly #addressGroupHashKey: Buffer;

  constructor(deps: InvoiceAdmissionDeps) {
    const { limits, secret, monotonicMs } = deps;
    this.#deps = deps;
    this.#requestLimiter = new FixedWindowRateLimiter(
      limits.invoicesPerMinute,
      MAX_COUNTED_ADDRESS_GROUPS,
      monotonicMs,
    );
    const { maxDailyQuotesPerAddress, maxDailyQuotesPerRecipientAndAddress } = limits;
    this.#dailyLimiters = {
      perPair: new FixedWindowRateLimiter(
        maxDailyQuotesPerRecipientAndAddress,
        MAX_COUNTED_PAIRS,
        monotonicMs,
        DAY_MS,
      ),
      perAddressGroup: new FixedWindowRateLimiter(
        maxDailyQuotesPerAddress,
        MAX_COUNTED_ADDRESS_GROUPS,
        monotonicMs,
        DAY_MS,
      ),
    };
    this.#openInvoiceLimits = {
      perRecipient: limits.maxOpenInvoicesPerRecipient,
      perAddressGroup: limits.maxOpenInvoicesPerAddress,
      perPair: limits.maxOpenInvoicesPerRecipientAndAddress,
    };
    this.#addressGroupHashKey = createHmac('sha256', secret).update('address groups').digest();
  }

  /**
   * Counts a request. Call this method before any other work for the request.
   *
   * @throws RequestError if the address group sent too many requests within a minute
   */
  assertRequestRate(addressGroup: string): void {
    const retryAfterMs = this.#requestLimiter.consume(addressGroup);
    if (retryAfterMs !== null) {
      throw rateLimitError('Too many requests for invoices from this address.', retryAfterMs);
    }
  }

  /**
   * Calls `createInvoice` if the request is within the limits. Waits if the mint's rate limit will soon allow it.
   *
   * @param createInvoice creates and stores a quote; until it ends, the request counts as an open invoice
   * @throws RequestError if too many invoices are open or were requested within a day, too many quotes of mints that
   *   users chose are watched, or the mint's rate limit is reached
   */
  async runIfAdmitted<Invoice>(
    request: AdmissionRequest,
    measureMintWait: <Result>(result: Promise<Result>) => Promise<Result>,
    createInvoice: (mintPermit: MintPermit, addressGroupHash: string) => Promise<Invoice>,
  ): Promise<Invoice> {
    const { limiter, quotes, operatorMints, watchBudget, maxWaitMs, clock } = this.#deps;
    const { pubkey, addressGroup, mintUrl } = request;
    // The hash has a secret key, so that the database does not reveal addresses.
    const addressGroupHash = createHmac('sha256', this.#addressGroupHashKey)
      .update(addressGroup)
      .digest('hex')
      .slice(0, ADDRESS_GROUP_HASH_HEX_LENGTH);
    const pair = `${pubkey} ${addressGroup}`;
    const inFlightRequests = this.#inFlightRequests;
    const inFlightCounts: OpenInvoiceCounts = {
      perRecipient: inFlightRequests.get(pubkey),
      perAddressGroup: inFlightRequests.get(addressGroup),
      perPair: inFlightRequests.get(pair),
    };
    // Checked before the database is queried, so that a burst of requests from one address does not occupy it.
    this.#assertOpenInvoiceLimits(inFlightCounts);
    const countedKeys = [pubkey, addressGroup, pair];
    for (const key of countedKeys) {
      inFlightRequests.increment(key);
    }
    try {
      // A request that commits meanwhile counts twice, so the requests of one process never exceed a limit. The
      // requests of several processes may exceed the limit by the number of their requests in flight.
      const storedCounts = await quotes.countOpenInvoices(
        { pubkey, addressGroupHash },
        this.#openInvoiceLimits,
        OPEN_INVOICE_AGE_LIMITS_MS,
        clock(),
      );
      this.#assertOpenInvoiceLimits(inFlightCounts, storedCounts);
      if (!operatorMints.includes(mintUrl)) {
        this.#assertWatchBudget(mintUrl, addressGroup);
        this.#assertDailyLimits(pair, addressGroup);
      }
      const acquisition = await measureMintWait(
        limiter.acquire(mintUrl, 'create', { addressGroup, maxWaitMs }),
      );
      if (acquisition.outcome === 'rate_limited') {
        throw mintUnavailableError(acquisition.retryAfterMs);
      }
      const invoice = await createInvoice(acquisition.permit, addressGroupHash);
      watchBudget.add(mintUrl);
      return invoice;
    } finally {
      for (const key of countedKeys) {
        inFlightRequests.decrement(key);
      }
    }
  }

  /**
   * As the watched quotes of the mint's site fill up, fewer of an address's daily quotes may add to them. So a few
   * addresses cannot use up the budget of a mint, whose recipients would then get no invoices.
   */
  #assertWatchBudget(mintUrl: string, addressGroup: string): void {
    const freeShare = this.#deps.watchBudget.getFreeShare(mintUrl);
    const maxDailyQuotes = this.#deps.limits.maxDailyQuotesPerAddress || Number.POSITIVE_INFINITY;
    const dailyQuotes = this.#dailyLimiters.perAddressGroup.getCount(addressGroup);
    // From the daily limit on, the payer gets the message of that limit.
    const hasUsedShare =
      dailyQuotes >= Math.ceil(maxDailyQuotes * freeShare) && dailyQuotes < maxDailyQuotes;
    if (freeShare === 0 || hasUsedShare) {
      throw mintUnavailableError(OPEN_INVOICES_RETRY_AFTER_MS);
    }
  }

  /** Counts a request, even if the mint's rate limit rejects it or the mint creates no quote. */
  #assertDailyLimits(pair: string, addressGroup: string): void {
    const { perPair, perAddressGroup } = this.#dailyLimiters;
    const consume = (limiter: FixedWindowRateLimiter, key: string, message: string) => {
      const retryAfterMs = limiter.consume(key);
      if (retryAfterMs !== null) {
        throw rateLimitError(message, retryAfterMs);
      }
    };
    // A request that the limit of the pair rejects does not count for the address.
    consume(perPair, pair, 'You have requested too many invoices for this recipient within a day.');
    consume(perAddressGroup, addressGroup, 'You have requested too many invoices within a day.');
  }

  #assertOpenInvoiceLimits(
    inFlightCounts: OpenInvoiceCounts,
    storedCounts?: OpenInvoiceCounts,
  ): void {
    const assertBelowLimit = (scope: keyof OpenInvoiceCounts, message: string) => {
      const limit = this.#openInvoiceLimits[scope];
      if (limit > 0 && inFlightCounts[scope] + (storedCounts?.[scope] ?? 0) >= limit) {
        throw rateLimitError(message, OPEN_INVOICES_RETRY_AFTER_MS);
      }
    };
    assertBelowLimit('perPair', 'You have too many unpaid invoices for this recipient.');
    assertBelowLimit('perAddressGroup', 'You have too many unpaid invoices.');
    assertBelowLimit('perRecipient', 'This recipient has too many unpaid invoices.');
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
