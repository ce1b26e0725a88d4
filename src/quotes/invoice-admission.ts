import { createHmac } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { RequestError, rateLimitError } from '../errors.ts';
import { FixedWindowCounter } from '../keyed-counters.ts';
import type { MintPermit, MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { Store } from '../store.ts';
import type { OpenInvoiceCounts } from './quote-store.ts';

/**
 * How long an unpaid invoice counts: at most an hour, which ends a flood, and at least ten minutes,
 * even if the mint lets it expire immediately.
 */
const OPEN_INVOICE_AGE_LIMITS_MS = { min: 10 * 60_000, max: 60 * 60_000 };

/** Any payment can free a place, so payers need not wait longer than a minute. */
const OPEN_INVOICES_RETRY_AFTER_MS = 60_000;

const MAX_COUNTED_ADDRESS_GROUPS = 20_000;

/** 64 bits of a hash: collisions are negligible up to millions of address groups. */
const ADDRESS_GROUP_HASH_HEX_LENGTH = 16;

/**
 * How many invoices payers may request; 0: no limit. Open invoices are the unpaid ones of the last
 * hour, counted across all processes.
 */
export interface InvoiceLimits {
  /** Per address: an IPv4 address, or the /64 of an IPv6 address. */
  invoicesPerMinute: number;
  maxOpenInvoicesPerRecipient: number;
  maxOpenInvoicesPerAddress: number;
  maxOpenInvoicesPerRecipientAndAddress: number;
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
  limits: InvoiceLimits;
  /** The key for hashing address groups is derived from it. */
  secret: string;
  /** How long a request may wait for the mint's rate limit. */
  maxWaitMs: number;
  clock: Clock;
  monotonicMs: () => number;
}

/**
 * Decides whether a payer gets an invoice, in three checks: the request rate of the payer's address
 * group, the open invoices, and the mint's rate limit.
 */
export class InvoiceAdmission {
  readonly #deps: InvoiceAdmissionDeps;
  readonly #requestCounter: FixedWindowCounter;
  readonly #openInvoiceLimits: OpenInvoiceCounts;
  readonly #inFlightRequests = new Set<AdmissionRequest>();
  readonly #addressGroupHashKey: Buffer;

  constructor(deps: InvoiceAdmissionDeps) {
    const { limits, secret, monotonicMs } = deps;
    this.#deps = deps;
    this.#requestCounter = new FixedWindowCounter(
      limits.invoicesPerMinute || Number.POSITIVE_INFINITY,
      MAX_COUNTED_ADDRESS_GROUPS,
      monotonicMs,
    );
    this.#openInvoiceLimits = {
      perRecipient: limits.maxOpenInvoicesPerRecipient,
      perAddressGroup: limits.maxOpenInvoicesPerAddress,
      perPair: limits.maxOpenInvoicesPerRecipientAndAddress,
    };
    this.#addressGroupHashKey = createHmac('sha256', secret).update('address groups').digest();
  }

  /**
   * Counts a request. Call it before any other work for the request.
   *
   * @throws RequestError if the address group sent too many requests within a minute
   */
  assertRequestRate(addressGroup: string): void {
    const retryAfterMs = this.#requestCounter.consume(addressGroup);
    if (retryAfterMs !== null) {
      throw rateLimitError('Too many requests for invoices from this address.', retryAfterMs);
    }
  }

  /**
   * Admits a request and creates its invoice. Waits if the mint's rate limit clears soon.
   *
   * @param createInvoice stores the quote, with the hash instead of the payer's address group; until
   *   it ends, the request counts as an open invoice
   * @throws RequestError if too many invoices are open, or the mint's rate limit is reached
   */
  async runIfAdmitted<Invoice>(
    request: AdmissionRequest,
    measureMintWait: <Result>(result: Promise<Result>) => Promise<Result>,
    createInvoice: (mintPermit: MintPermit, addressGroupHash: string) => Promise<Invoice>,
  ): Promise<Invoice> {
    const { limiter, quotes, maxWaitMs, clock } = this.#deps;
    const { pubkey, addressGroup, mintUrl } = request;
    // The key is secret, so that the database does not reveal addresses.
    const addressGroupHash = createHmac('sha256', this.#addressGroupHashKey)
      .update(addressGroup)
      .digest('hex')
      .slice(0, ADDRESS_GROUP_HASH_HEX_LENGTH);
    const inFlight = this.#countInFlight(request);
    // Rejects a burst from one address before it occupies the database.
    this.#assertOpenInvoiceLimits(inFlight);
    this.#inFlightRequests.add(request);
    try {
      // A request that commits meanwhile counts twice, so concurrent requests of this process never
      // exceed a limit. Other processes may exceed it by their requests in flight.
      const stored = await quotes.countOpenInvoices(
        { pubkey, addressGroupHash },
        this.#openInvoiceLimits,
        OPEN_INVOICE_AGE_LIMITS_MS,
        clock(),
      );
      this.#assertOpenInvoiceLimits(inFlight, stored);
      const acquired = await measureMintWait(
        limiter.acquire(mintUrl, 'create', { addressGroup, maxWaitMs }),
      );
      if (acquired.outcome === 'rate_limited') {
        throw mintUnavailableError(acquired.retryAfterMs);
      }
      return await createInvoice(acquired.permit, addressGroupHash);
    } finally {
      this.#inFlightRequests.delete(request);
    }
  }

  #countInFlight({ pubkey, addressGroup }: AdmissionRequest): OpenInvoiceCounts {
    const sameRecipient = [...this.#inFlightRequests].filter((each) => each.pubkey === pubkey);
    const isSameGroup = (each: AdmissionRequest) => each.addressGroup === addressGroup;
    return {
      perRecipient: sameRecipient.length,
      perAddressGroup: [...this.#inFlightRequests].filter(isSameGroup).length,
      perPair: sameRecipient.filter(isSameGroup).length,
    };
  }

  #assertOpenInvoiceLimits(inFlight: OpenInvoiceCounts, stored?: OpenInvoiceCounts): void {
    const assertBelowLimit = (scope: keyof OpenInvoiceCounts, message: string) => {
      const limit = this.#openInvoiceLimits[scope];
      if (limit > 0 && inFlight[scope] + (stored?.[scope] ?? 0) >= limit) {
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
