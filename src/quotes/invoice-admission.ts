import { createHmac } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { Refusal, tooMany } from '../errors.ts';
import { FixedWindowCounter } from '../keyed-counters.ts';
import type { MintPermit, MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { Store } from '../store.ts';
import type { OpenInvoices } from './quote-store.ts';

/**
 * How long an unpaid invoice counts, whatever its expiry: a flood shuts out other payers for an hour at most, and
 * invoices of a mint that lets them expire at once count too.
 */
const COUNTED_MS = { least: 10 * 60_000, most: 60 * 60_000 };

/** A payment may make room at any time, so a rejected payer is never sent away for longer than a minute. */
const RETRY_AFTER_MS = 60_000;

/** Address groups whose requests are counted. */
const MAX_ADDRESS_GROUPS = 20_000;

/** 64 bits of a hash: two address groups share a count about once in 2^32 groups. */
const HASH_LENGTH = 16;

/** How many invoices payers may request; 0: no limit. An address is an IPv4 address or the /64 of an IPv6 one. */
export interface InvoiceLimits {
  /** Requests for an invoice per minute, by address. */
  invoices: number;
  /** Unpaid invoices of the last hour, in all processes. */
  openInvoicesPerRecipient: number;
  openInvoicesPerAddress: number;
  /** Of one recipient, requested by one address. */
  openInvoicesPerPair: number;
}

/** A payer's request for an invoice. */
export interface InvoiceRequest {
  /** The recipient's key, hex. */
  pubkey: string;
  /** The payer's IPv4 address, or the /64 of an IPv6 one. */
  addressGroup: string;
  mintUrl: string;
}

/** Permission to create one invoice. */
export interface Admitted {
  /** For the request to the mint. */
  permit: MintPermit;
  /** What the database stores in place of the payer's address group. */
  addressGroupHash: string;
}

export interface InvoiceAdmissionParts {
  limiter: Pick<MintRateLimiter, 'acquire'>;
  quotes: Pick<Store['quotes'], 'countOpen'>;
  /** 0: no limit. */
  limits: InvoiceLimits;
  /** A secret of the service; the key for hashing address groups is derived from it. */
  secret: string;
  /** How long a request may wait for the mint's rate limit. */
  patienceMs: number;
  clock: Clock;
  monotonicMs: () => number;
}

/**
 * Decides whether a payer gets an invoice: by the requests of the payer's address group, by the open invoices,
 * and by the mint's rate limit.
 */
export class InvoiceAdmission {
  readonly #parts: InvoiceAdmissionParts;
  readonly #requests: FixedWindowCounter | null;
  readonly #limits: OpenInvoices;
  readonly #underWay = new Set<InvoiceRequest>();
  readonly #hashKey: Buffer;

  constructor(parts: InvoiceAdmissionParts) {
    const { limits, secret, monotonicMs } = parts;
    this.#parts = parts;
    this.#requests =
      limits.invoices === 0
        ? null
        : new FixedWindowCounter(limits.invoices, MAX_ADDRESS_GROUPS, monotonicMs);
    this.#limits = {
      ofRecipient: limits.openInvoicesPerRecipient,
      ofAddressGroup: limits.openInvoicesPerAddress,
      ofPair: limits.openInvoicesPerPair,
    };
    this.#hashKey = createHmac('sha256', secret).update('address groups').digest();
  }

  /**
   * Counts a request, before anything else is done for it.
   *
   * @throws Refusal if there were too many from this address group within a minute
   */
  countRequest(addressGroup: string): void {
    const waitMs = this.#requests?.count(addressGroup) ?? null;
    if (waitMs !== null) {
      throw tooMany('Too many requests for invoices from this address.', waitMs);
    }
  }

  /**
   * Admits a request and creates its invoice, waiting for the mint's rate limit if that is short.
   *
   * @param timed measures the wait for the mint's rate limit
   * @param create stores the quote; the request counts as an open invoice until it ends
   * @throws Refusal if too many invoices are open, or the mint's rate limit is reached
   */
  async admit<Invoice>(
    request: InvoiceRequest,
    timed: <Answer>(answer: Promise<Answer>) => Promise<Answer>,
    create: (admitted: Admitted) => Promise<Invoice>,
  ): Promise<Invoice> {
    const { limiter, quotes, patienceMs, clock } = this.#parts;
    const { pubkey, addressGroup, mintUrl } = request;
    const addressGroupHash = this.#hash(addressGroup);
    const underWay = this.#countUnderWay(request);
    // First without the database: a burst from one address must not reserve what other payers need.
    this.#refuseTooManyOpen(underWay);
    this.#underWay.add(request);
    try {
      // A request that commits meanwhile counts twice, so that concurrent requests of this process never exceed a
      // limit. Each other process may exceed it by the requests that it has under way.
      const pair = { pubkey, addressGroup: addressGroupHash };
      const stored = await quotes.countOpen(pair, this.#limits, COUNTED_MS, clock());
      this.#refuseTooManyOpen({
        ofRecipient: stored.ofRecipient + underWay.ofRecipient,
        ofAddressGroup: stored.ofAddressGroup + underWay.ofAddressGroup,
        ofPair: stored.ofPair + underWay.ofPair,
      });

      const options = { addressGroup, patienceMs };
      const acquired = await timed(limiter.acquire(mintUrl, 'create', options));
      if (acquired.outcome === 'rate_limited') {
        throw mintRateLimited(acquired.retryAfterMs);
      }
      return await create({ permit: acquired.permit, addressGroupHash });
    } finally {
      this.#underWay.delete(request);
    }
  }

  #countUnderWay({ pubkey, addressGroup }: InvoiceRequest): OpenInvoices {
    const ofRecipient = [...this.#underWay].filter((other) => other.pubkey === pubkey);
    const ofAddressGroup = [...this.#underWay].filter(
      (other) => other.addressGroup === addressGroup,
    );
    const ofPair = ofRecipient.filter((other) => other.addressGroup === addressGroup);
    return {
      ofRecipient: ofRecipient.length,
      ofAddressGroup: ofAddressGroup.length,
      ofPair: ofPair.length,
    };
  }

  #refuseTooManyOpen(open: OpenInvoices): void {
    const isFull = (of: keyof OpenInvoices) => this.#limits[of] > 0 && open[of] >= this.#limits[of];
    if (isFull('ofPair')) {
      throw tooMany('You have too many unpaid invoices of this recipient.', RETRY_AFTER_MS);
    }
    if (isFull('ofAddressGroup')) {
      throw tooMany('You have too many unpaid invoices.', RETRY_AFTER_MS);
    }
    if (isFull('ofRecipient')) {
      throw tooMany('This recipient has too many unpaid invoices.', RETRY_AFTER_MS);
    }
  }

  /** The database must not hold addresses: without the key, a hash does not reveal its address. */
  #hash(addressGroup: string): string {
    return createHmac('sha256', this.#hashKey)
      .update(addressGroup)
      .digest('hex')
      .slice(0, HASH_LENGTH);
  }
}

/** @param retryAfterMs null: unknown */
export function mintRateLimited(retryAfterMs: number | null): Refusal {
  const { nature, message } = mintTrouble();
  const seconds = retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000));
  return new Refusal(nature, message, seconds);
}

/** The error of a payer whose recipient has a mint that does not work. */
export function mintTrouble(): Refusal {
  return new Refusal(
    'unavailable',
    'The recipient’s mint cannot create an invoice right now. Try again later.',
  );
}
