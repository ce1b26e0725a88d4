import { createHmac } from 'node:crypto';
import type { Clock } from '../domain/clock.ts';
import { Refusal, tooMany } from '../domain/errors.ts';
import type { InboundLimits } from '../domain/limits.ts';
import { MinuteCounts } from '../domain/minute-counts.ts';
import type { MintPermit, MintRateLimiter } from '../mint/mint-rate-limiter.ts';
import type { UnpaidInvoices } from '../store/quote-store.ts';
import type { Store } from '../store/store.ts';
import type { InvoiceTimer } from './invoice-timing.ts';
import { mintTrouble } from './payment-terms.ts';

/** An unpaid invoice counts for this long, so that a flood shuts out other payers for an hour at most. */
const COUNTED_FOR_MS = 60 * 60_000;

/** A payment may make room at any time, so a rejected payer is never sent away for longer than a minute. */
const RETRY_AFTER_MS = 60_000;

/** Address groups whose requests are counted, about 150 bytes each. The oldest are dropped first. */
const MAX_ADDRESS_GROUPS = 20_000;

/** 64 bits of a hash: two address groups share a count about once in 2^32 groups. */
const HASH_LENGTH = 16;

/** Who asks for an invoice of whom. */
export interface InvoiceRequest {
  /** Key of the recipient, hex. */
  recipient: string;
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
  /** Must be called when the quote is stored, or when there will be none. */
  release(): void;
}

/** Decides whether a payer gets an invoice: three checks, from the cheapest to the dearest. */
export class InvoiceAdmission {
  readonly #limiter: Pick<MintRateLimiter, 'acquire'>;
  readonly #quotes: Pick<Store['quotes'], 'countUnpaid'>;
  /** 0: no limit. */
  readonly #limits: UnpaidInvoices;
  readonly #requests: MinuteCounts | null;
  readonly #underWay = new Map<string, number>();
  readonly #hashKey: Buffer;
  readonly #patienceMs: number;
  readonly #clock: Clock;
  readonly #monotonicMs: () => number;

  /**
   * @param parts.secret a secret of the service; the key for hashing address groups is derived from it
   * @param parts.patienceMs how long a request may wait for the mint's rate limit
   */
  constructor(parts: {
    limiter: Pick<MintRateLimiter, 'acquire'>;
    quotes: Pick<Store['quotes'], 'countUnpaid'>;
    limits: Pick<
      InboundLimits,
      'invoices' | 'openInvoicesPerRecipient' | 'openInvoicesPerAddress' | 'openInvoicesPerPair'
    >;
    secret: string;
    patienceMs: number;
    clock: Clock;
    monotonicMs: () => number;
  }) {
    const { limits } = parts;
    this.#limiter = parts.limiter;
    this.#quotes = parts.quotes;
    this.#limits = {
      ofRecipient: limits.openInvoicesPerRecipient,
      ofAddressGroup: limits.openInvoicesPerAddress,
      ofPair: limits.openInvoicesPerPair,
    };
    this.#requests =
      limits.invoices === 0 ? null : new MinuteCounts(limits.invoices, MAX_ADDRESS_GROUPS);
    this.#hashKey = createHmac('sha256', parts.secret).update('address groups').digest();
    this.#patienceMs = parts.patienceMs;
    this.#clock = parts.clock;
    this.#monotonicMs = parts.monotonicMs;
  }

  /**
   * Admits a request for an invoice, waiting for the mint's rate limit if that is short.
   *
   * @param timer measures how long the mint's rate limit was waited for
   * @throws Refusal if the payer asks too often, too many invoices are unpaid, or the mint's rate limit is reached
   */
  async admit(request: InvoiceRequest, timer: Pick<InvoiceTimer, 'mint'>): Promise<Admitted> {
    const { addressGroup, mintUrl } = request;
    this.#refuseTooManyRequests(addressGroup);

    const addressGroupHash = this.#hash(addressGroup);
    const reservation = this.#reserve(request.recipient, addressGroupHash);
    try {
      await this.#refuseTooManyUnpaid(request.recipient, addressGroupHash, reservation.underWay);

      const options = { addressGroup, patienceMs: this.#patienceMs };
      const acquired = await timer.mint(this.#limiter.acquire(mintUrl, 'create', options));
      if (acquired.outcome === 'rate_limited') {
        throw mintRateLimited(acquired.retryAfterMs);
      }
      return { permit: acquired.permit, addressGroupHash, release: reservation.release };
    } catch (error) {
      reservation.release();
      throw error;
    }
  }

  #refuseTooManyRequests(addressGroup: string): void {
    const waitMs = this.#requests?.count(addressGroup, this.#monotonicMs()) ?? null;
    if (waitMs !== null) {
      throw tooMany('Too many requests for invoices from this address.', waitMs);
    }
  }

  /**
   * Compares the stored unpaid invoices, plus the requests of this process that are under way, with the limits. A
   * request that commits meanwhile counts twice, so that concurrent requests never exceed a limit. Each other process
   * may exceed it by the requests that it has under way.
   */
  async #refuseTooManyUnpaid(
    pubkey: string,
    addressGroup: string,
    underWay: UnpaidInvoices,
  ): Promise<void> {
    const nowMs = this.#clock();
    const stored = await this.#quotes.countUnpaid({ pubkey, addressGroup }, this.#limits, {
      afterMs: nowMs - COUNTED_FOR_MS,
      // Invoices far in the future are from a clock that was wrong and do not count.
      untilMs: nowMs + COUNTED_FOR_MS,
    });
    const isFull = (of: keyof UnpaidInvoices) =>
      this.#limits[of] > 0 && stored[of] + underWay[of] >= this.#limits[of];
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

  /** Counts a request as under way, and returns how many were before. */
  #reserve(
    pubkey: string,
    addressGroup: string,
  ): { underWay: UnpaidInvoices; release: () => void } {
    const keys = {
      ofRecipient: pubkey,
      ofAddressGroup: addressGroup,
      ofPair: `${pubkey} ${addressGroup}`,
    };
    const underWay = {
      ofRecipient: this.#underWay.get(keys.ofRecipient) ?? 0,
      ofAddressGroup: this.#underWay.get(keys.ofAddressGroup) ?? 0,
      ofPair: this.#underWay.get(keys.ofPair) ?? 0,
    };
    const all = Object.values(keys);
    for (const key of all) {
      this.#underWay.set(key, (this.#underWay.get(key) ?? 0) + 1);
    }
    const release = () => {
      for (const key of all) {
        const left = (this.#underWay.get(key) ?? 0) - 1;
        if (left > 0) {
          this.#underWay.set(key, left);
        } else {
          this.#underWay.delete(key);
        }
      }
    };
    return { underWay, release };
  }

  /** The database must not hold addresses: without the key, nobody can tell which address a hash stands for. */
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
